//! List requests, the same for both faces.

use manifold_protocol::{Era, Kind, Method, Params, Raw, RpcError, code};
use manifold_routing::Surface;

/// The kind that a method lists, if it lists any.
pub(crate) fn kind(method: &Method) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind.method() == *method)
}

/// The page that the params ask for. Without `limits.page_size` a list is one page.
pub(crate) fn page(
    surface: &Surface,
    kind: Kind,
    era: Era,
    params: &Params,
    size: Option<usize>,
) -> Result<Raw, RpcError> {
    let cursor = params.cursor().filter(|cursor| !cursor.is_null());
    surface
        .list(kind, era, cursor.as_ref(), size)
        .map_err(|_| RpcError::new(code::INVALID_PARAMS, "Invalid params: unknown cursor"))
}

/// Whether the params ask for the beginning.
pub(crate) fn is_first(params: &Params) -> bool {
    params.cursor().is_none_or(|cursor| cursor.is_null())
}

/// The error for a method that the path does not have.
pub(crate) fn unknown_method(method: &Method) -> RpcError {
    RpcError::new(
        code::METHOD_NOT_FOUND,
        format!("Method not found: {method}"),
    )
}
