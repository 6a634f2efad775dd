//! The lists whose changes a link listens for.

use manifold_protocol::Raw;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Serves;

/// Which lists' changes are listened for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Watched {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
}

#[derive(Debug, Default, Deserialize)]
struct Capabilities<'a> {
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    prompts: Option<&'a RawValue>,
    #[serde(borrow)]
    resources: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
struct Feature {
    #[serde(default, rename = "listChanged")]
    list_changed: bool,
}

impl Watched {
    /// What a modern server declares to announce: it is asked for nothing else (2026-07-28 subscriptions).
    pub(crate) fn declared(capabilities: &Raw) -> Self {
        let capabilities: Capabilities<'_> = capabilities.read().unwrap_or_default();
        Self {
            tools: announces(capabilities.tools),
            prompts: announces(capabilities.prompts),
            resources: announces(capabilities.resources),
        }
    }

    /// Every list that a legacy server has: many announce changes without having declared it.
    pub(crate) fn served(serves: Serves) -> Self {
        Self {
            tools: serves.tools,
            prompts: serves.prompts,
            resources: serves.resources,
        }
    }

    /// Whether there is nothing to listen for.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// The params of `subscriptions/listen` that ask for these.
    pub(crate) fn params(self) -> Raw {
        let wanted = [
            ("toolsListChanged", self.tools),
            ("promptsListChanged", self.prompts),
            ("resourcesListChanged", self.resources),
        ];
        let mut filter = serde_json::Map::new();
        for (name, _) in wanted.into_iter().filter(|(_, wanted)| *wanted) {
            filter.insert(name.to_owned(), true.into());
        }
        Raw::of(&serde_json::json!({ "notifications": filter }))
    }
}

/// Whether a feature is declared with `listChanged: true`.
fn announces(feature: Option<&RawValue>) -> bool {
    let feature = feature.and_then(|feature| serde_json::from_str::<Feature>(feature.get()).ok());
    feature.unwrap_or_default().list_changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_declared_is_asked_for_and_nothing_else() {
        for (capabilities, params) in [
            ("{}", r#"{"notifications":{}}"#),
            (
                r#"{"tools":{"listChanged":true},"prompts":{},"resources":{"listChanged":false}}"#,
                r#"{"notifications":{"toolsListChanged":true}}"#,
            ),
            (
                r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},
                    "resources":{"subscribe":true,"listChanged":true}}"#,
                r#"{"notifications":{"promptsListChanged":true,"resourcesListChanged":true,"toolsListChanged":true}}"#,
            ),
            // What makes no sense hides nothing beside it.
            (
                r#"{"tools":{"listChanged":1},"prompts":true,"resources":{"listChanged":true}}"#,
                r#"{"notifications":{"resourcesListChanged":true}}"#,
            ),
            ("[]", r#"{"notifications":{}}"#),
        ] {
            let capabilities = Raw::parse(capabilities.into()).unwrap();
            let watched = Watched::declared(&capabilities);
            assert_eq!(watched.params().as_str(), params, "{capabilities:?}");
            assert_eq!(watched.is_empty(), params.ends_with("{}}"));
        }
    }
}
