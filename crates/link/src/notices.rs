//! What a server tells a link outside of any call.

use manifold_protocol::Method;

use crate::listen::Watched;

/// How often each list of a server was said to have changed, or may have changed unheard. Counters, so that a burst
/// is seen as one change by whoever looks later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Notices {
    /// `notifications/tools/list_changed`.
    pub tools: u64,
    /// `notifications/prompts/list_changed`.
    pub prompts: u64,
    /// `notifications/resources/list_changed`.
    pub resources: u64,
}

impl Notices {
    /// Counts a notification; says whether it was one of these.
    pub(crate) fn record(&mut self, method: &Method) -> bool {
        let counter = if *method == Method::ToolsListChanged {
            &mut self.tools
        } else if *method == Method::PromptsListChanged {
            &mut self.prompts
        } else if *method == Method::ResourcesListChanged {
            &mut self.resources
        } else {
            return false;
        };
        *counter = counter.wrapping_add(1);
        true
    }

    /// Counts each watched list as changed: nobody was told, but somebody may have missed it. Says whether there
    /// is any.
    pub(crate) fn suspect(&mut self, watched: Watched) -> bool {
        for (counter, watched) in [
            (&mut self.tools, watched.tools),
            (&mut self.prompts, watched.prompts),
            (&mut self.resources, watched.resources),
        ] {
            *counter = counter.wrapping_add(u64::from(watched));
        }
        !watched.is_empty()
    }
}
