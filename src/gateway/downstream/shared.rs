//! Prompts, resources and completions of the servers, under names that say whose they are.

use std::sync::Arc;

use rmcp::model::{
    ClientRequest, CompleteRequest, CompleteRequestParams, CompleteResult, GetPromptRequest,
    GetPromptRequestParams, GetPromptResponse, Prompt, ReadResourceRequest,
    ReadResourceRequestParams, ReadResourceResponse, Reference, Resource, ResourceContents,
    ResourceTemplate, ServerResult, SubscribeRequest, SubscribeRequestParams, UnsubscribeRequest,
    UnsubscribeRequestParams,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use super::talk::{Ear, forwarded};
use crate::gateway::hub::Hub;
use crate::gateway::names::{self, fits};
use crate::gateway::sessions::ClientSession;
use crate::gateway::upstream::{Errand, Failure, Shelf, Upstream};

impl Hub {
    /// The servers whose namespace the client is approved for.
    fn approved<'a>(
        &'a self,
        session: &'a ClientSession,
    ) -> impl Iterator<Item = &'a Arc<Upstream>> {
        self.upstreams.iter().filter(|upstream| {
            let namespaces = &session.context.namespaces;
            namespaces.as_ref().is_none_or(|approved| approved.contains(upstream.name()))
        })
    }

    /// What the approved servers have of one kind, renamed by `shown`.
    fn shelved<T: Clone>(
        &self,
        session: &ClientSession,
        kind: impl Fn(&Shelf) -> &[T],
        shown: impl Fn(&str, &mut T),
    ) -> Vec<T> {
        let mut all = Vec::new();
        for upstream in self.approved(session) {
            let first = all.len();
            all.extend_from_slice(kind(&upstream.shelf()));
            for item in &mut all[first..] {
                shown(upstream.name(), item);
            }
        }
        all
    }

    pub(crate) fn prompts(&self, session: &ClientSession) -> Vec<Prompt> {
        self.shelved(
            session,
            |shelf| &shelf.prompts,
            |server, prompt| {
                prompt.name = names::prompt(server, &prompt.name);
            },
        )
    }

    pub(crate) fn resources(&self, session: &ClientSession) -> Vec<Resource> {
        self.shelved(
            session,
            |shelf| &shelf.resources,
            |server, resource| {
                resource.uri = self.slugs.join(server, &resource.uri);
            },
        )
    }

    pub(crate) fn templates(&self, session: &ClientSession) -> Vec<ResourceTemplate> {
        self.shelved(
            session,
            |shelf| &shelf.templates,
            |server, template| {
                template.uri_template = self.slugs.join(server, &template.uri_template);
            },
        )
    }

    fn prompt<'a>(
        &'a self,
        session: &'a ClientSession,
        shown: &str,
    ) -> Result<(&'a Arc<Upstream>, String), ErrorData> {
        let mut hits = self.approved(session).filter_map(|upstream| {
            let name = names::prompt_at(upstream.name(), shown)?;
            let known = upstream.shelf().prompts.iter().any(|prompt| prompt.name == name);
            known.then(|| (upstream, name.to_owned()))
        });
        hits.next().ok_or_else(|| {
            ErrorData::invalid_params(format!("there is no prompt '{shown}': list them"), None)
        })
    }

    /// The server of an address: by its prefix, or, for one out of a result, by where that came
    /// from, or by who lists it.
    fn resource<'a>(
        &'a self,
        session: &'a ClientSession,
        shown: &str,
    ) -> Result<(&'a Arc<Upstream>, String), ErrorData> {
        let may = |name: &str| self.approved(session).find(|upstream| upstream.name() == name);
        if let Some((server, uri)) = self.slugs.split(shown)
            && let Some(upstream) = may(server)
        {
            return Ok((upstream, uri.to_owned()));
        }
        let origin = session.origin(shown);
        let by_origin = origin.and_then(|server| may(&server));
        let listed = || {
            self.approved(session).find(|upstream| {
                upstream.shelf().resources.iter().any(|resource| resource.uri == shown)
            })
        };
        let templated = || {
            self.approved(session).find(|upstream| {
                let shelf = upstream.shelf();
                shelf.templates.iter().any(|template| fits(&template.uri_template, shown))
            })
        };
        let upstream = by_origin.or_else(listed).or_else(templated).ok_or_else(|| {
            let text = format!("there is no resource '{shown}': list them");
            ErrorData::resource_not_found(text, None)
        })?;
        Ok((upstream, shown.to_owned()))
    }

    pub(crate) async fn get_prompt(
        &self,
        session: Arc<ClientSession>,
        mut params: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let (upstream, name) = self.prompt(&session, &params.name)?;
        params.name = name;
        let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
        match forward(upstream, request, &session, &context).await? {
            ServerResult::GetPromptResult(result) => Ok(result.into()),
            ServerResult::InputRequiredResult(result) => Ok(result.into()),
            _ => Err(odd(upstream)),
        }
    }

    pub(crate) async fn read_resource(
        &self,
        session: Arc<ClientSession>,
        mut params: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (upstream, uri) = self.resource(&session, &params.uri)?;
        let prefixed = uri != params.uri;
        params.uri = uri;
        let request = ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params));
        match forward(upstream, request, &session, &context).await? {
            ServerResult::ReadResourceResult(mut result) => {
                if prefixed {
                    for contents in &mut result.contents {
                        if let ResourceContents::TextResourceContents { uri, .. }
                        | ResourceContents::BlobResourceContents { uri, .. } = contents
                        {
                            *uri = self.slugs.join(upstream.name(), uri);
                        }
                    }
                }
                Ok(result.into())
            }
            ServerResult::InputRequiredResult(result) => Ok(result.into()),
            _ => Err(odd(upstream)),
        }
    }

    pub(crate) async fn subscribe(
        &self,
        session: Arc<ClientSession>,
        shown: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let (upstream, uri) = self.resource(&session, shown)?;
        let params = SubscribeRequestParams::new(uri.clone());
        let request = ClientRequest::SubscribeRequest(SubscribeRequest::new(params));
        forward(upstream, request, &session, context).await?;
        session.subscribe(upstream.name(), &uri, shown);
        Ok(())
    }

    pub(crate) async fn unsubscribe(
        &self,
        session: Arc<ClientSession>,
        shown: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let (upstream, uri) = self.resource(&session, shown)?;
        session.unsubscribe(upstream.name(), &uri);
        if self.sessions.nobody_subscribes(upstream.name(), &uri) {
            let params = UnsubscribeRequestParams::new(uri);
            let request = ClientRequest::UnsubscribeRequest(UnsubscribeRequest::new(params));
            forward(upstream, request, &session, context).await?;
        }
        Ok(())
    }

    pub(crate) async fn complete(
        &self,
        session: Arc<ClientSession>,
        mut params: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let upstream = match &mut params.r#ref {
            Reference::Prompt(prompt) => {
                let (upstream, name) = self.prompt(&session, &prompt.name)?;
                prompt.name = name;
                upstream
            }
            Reference::Resource(template) => {
                let (upstream, uri) = self.resource(&session, &template.uri)?;
                template.uri = uri;
                upstream
            }
            _ => return Ok(CompleteResult::default()),
        };
        if !upstream.can(|can| can.completions.is_some()) {
            return Ok(CompleteResult::default());
        }
        let request = ClientRequest::CompleteRequest(CompleteRequest::new(params));
        match forward(upstream, request, &session, &context).await? {
            ServerResult::CompleteResult(result) => Ok(result),
            _ => Err(odd(upstream)),
        }
    }
}

async fn forward(
    upstream: &Arc<Upstream>,
    request: ClientRequest,
    session: &Arc<ClientSession>,
    context: &RequestContext<RoleServer>,
) -> Result<ServerResult, ErrorData> {
    let ear = Ear::new(session, context);
    let (errand, asides) = Errand::new(session.number, ear.cancelled.clone());
    let work = upstream.request(request, forwarded(&context.meta), &errand);
    ear.listen(asides, work).await.map_err(|failure| match failure {
        Failure::Refused(error) => error,
        other => ErrorData::internal_error(other.text(upstream.name()), None),
    })
}

fn odd(upstream: &Upstream) -> ErrorData {
    ErrorData::internal_error(Failure::Odd.text(upstream.name()), None)
}
