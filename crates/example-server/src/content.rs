//! Resources, the prompt and its completion.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::message::Params;
use crate::reply::Fault;
use crate::surface::{GREET, GREETING, ITEM_PREFIX, ITEM_TEMPLATE};

/// The names that the prompt's argument completes to.
const NAMES: [&str; 3] = ["Ada", "Alan", "Grace"];

/// `resources/read`.
pub(crate) fn read_resource(params: &Params) -> Result<Value, Fault> {
    #[derive(Deserialize)]
    struct Read {
        uri: String,
    }
    let Read { uri } = params.read()?;
    let text = match uri.strip_prefix(ITEM_PREFIX) {
        _ if uri == GREETING => "Hello from the example server.".to_owned(),
        // Simple expansion of {id} yields no reserved characters, so a slash is no part of an id.
        Some(id) if !id.is_empty() && !id.contains(['/', '?', '#']) => {
            format!("This is item {id}.")
        }
        Some(_) | None => return Err(Fault::UnknownResource { uri }),
    };
    Ok(json!({ "contents": [{ "uri": uri, "mimeType": "text/plain", "text": text }] }))
}

/// `prompts/get`.
pub(crate) fn get_prompt(params: &Params) -> Result<Value, Fault> {
    #[derive(Deserialize)]
    struct Get {
        name: String,
        #[serde(default)]
        arguments: BTreeMap<String, String>,
    }
    let get: Get = params.read()?;
    if get.name != GREET {
        return Err(Fault::InvalidParams(format!(
            "unknown prompt {:?}",
            get.name
        )));
    }
    let Some(name) = get.arguments.get("name") else {
        return Err(Fault::InvalidParams(
            "the prompt needs the argument `name`".to_owned(),
        ));
    };
    Ok(json!({
        "description": "A greeting by name",
        "messages": [{
            "role": "user",
            "content": { "type": "text", "text": format!("Greet {name} in one friendly sentence.") },
        }],
    }))
}

/// `completion/complete`.
pub(crate) fn complete(params: &Params) -> Result<Value, Fault> {
    #[derive(Deserialize)]
    struct Complete {
        r#ref: Reference,
        argument: Argument,
    }
    #[derive(Deserialize)]
    #[serde(tag = "type")]
    enum Reference {
        #[serde(rename = "ref/prompt")]
        Prompt { name: String },
        #[serde(rename = "ref/resource")]
        Resource { uri: String },
    }
    #[derive(Deserialize)]
    struct Argument {
        name: String,
        value: String,
    }
    let Complete {
        r#ref: reference,
        argument,
    } = params.read()?;
    let values: Vec<&str> = match reference {
        Reference::Prompt { name } if name == GREET && argument.name == "name" => {
            let start = argument.value.to_lowercase();
            NAMES
                .into_iter()
                .filter(|name| name.to_lowercase().starts_with(&start))
                .collect()
        }
        // Any id will do, so there is nothing to suggest.
        Reference::Resource { uri } if uri == ITEM_TEMPLATE && argument.name == "id" => Vec::new(),
        Reference::Prompt { name } => {
            return Err(Fault::InvalidParams(format!(
                "no argument {:?} of a prompt {name:?}",
                argument.name
            )));
        }
        Reference::Resource { uri } => {
            return Err(Fault::InvalidParams(format!(
                "no variable {:?} of a template {uri:?}",
                argument.name
            )));
        }
    };
    Ok(json!({ "completion": { "total": values.len(), "hasMore": false, "values": values } }))
}
