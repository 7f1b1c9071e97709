//! `find_tool`, carried out.

use super::find_tool::{CrowdedName, FindReply, FindRequest, FindStatus, FoundTool};
use super::{Session, slot, summary};
use crate::catalog::{MAX_ALIKE, ToolId};
use crate::error::Result;
use crate::select::{Candidate, GatedBy, MAX_INTENTS, Outcome, Rejected, SelectRequest, Selection};
use crate::working_set::{Delta, RefuseReason, Slot};

/// Names, and namespaces, in a reply that found nothing.
const MAX_AVAILABLE: usize = 30;

/// Searches that a session remembers to recognise a repeated one.
const MAX_SEARCHES: usize = 64;

/// Tools that a reply names of those that are too many to load.
const MAX_CROWD: usize = 5;

/// Near tools that a reply names.
const MAX_NEAR: usize = 3;

impl Session {
    /// Carries out a search of the model: ranks, loads, and says what became of it.
    ///
    /// Send the tool list anew afterwards ([`visible`](Self::visible)): the reply tells the model
    /// that what was loaded is in it.
    ///
    /// # Errors
    /// [`ErrorKind::LexicalIndex`](crate::ErrorKind::LexicalIndex). A search that finds nothing is a
    /// reply, not an error.
    pub fn find_tool(&mut self, request: &FindRequest) -> Result<FindReply> {
        self.traced_find(request)
    }

    pub(super) fn carry_out(&mut self, request: &FindRequest) -> Result<FindReply> {
        // What the reply says is loaded or does not exist has to be so for the call that follows.
        let delta = self.catch_up();
        self.pending.extend(delta);
        let mut hits = self.hits(request)?;
        if let Some(ranked) = hits.ranked.take() {
            let (select, selection) = *ranked;
            self.trace_selection(&select, &selection);
        }
        let ids: Vec<ToolId> = hits.rows.iter().map(|slot| slot.id.clone()).collect();
        let key = request.key();
        let known = self.searches.iter().any(|(old, found)| *old == key && *found == ids);
        self.searches.retain(|(old, _)| *old != key);
        self.searches.push((key, ids));
        if self.searches.len() > MAX_SEARCHES {
            self.searches.remove(0);
        }

        let (mut visible, mut new) = (Vec::new(), Vec::new());
        for (place, slot) in hits.rows.drain(..).enumerate() {
            // A visible tool behind new ones is no answer: the model asked for what it lacks.
            let answers = new.is_empty() || place < hits.named;
            match self.is_visible(&slot.id) {
                true if answers => visible.push(slot),
                true => hits.total = hits.total.saturating_sub(1),
                false => new.push(slot),
            }
        }
        let mut delta = Delta::default();
        if !self.pass_through {
            delta = self.set.admit_found(&visible);
            delta.extend(self.set.admit_found(&new));
        }
        self.unseen.extend(&delta);
        // What was evicted since and is loaded anew is news.
        let repeated = known && delta.admitted.is_empty();
        if self.options.pin_found {
            self.pin_what_is_visible(visible.iter().chain(&new), &mut delta);
        }
        let reply = self.reply(request, hits, &visible, &delta, repeated);
        self.brief(&reply.definitions);
        self.pending.extend(delta);
        Ok(reply)
    }

    fn hits(&mut self, request: &FindRequest) -> Result<Hits> {
        let failed = self.failed.take();
        let snapshot = &self.index.snapshot;
        let mut hits = Hits::default();
        for name in request.describe.iter().chain(&request.names) {
            match self.asked_for(request, name).as_slice() {
                [] => hits.unknown.push(name.clone()),
                [row] => hits.add(slot(&self.index, *row)),
                crowd if crowd.len() > MAX_ALIKE => {
                    let name_of = |&row: &usize| snapshot.names().provider_name(row).to_owned();
                    let tools = crowd.iter().take(MAX_CROWD).map(name_of).collect();
                    let (name, total) = (name.clone(), crowd.len());
                    hits.crowded.push(CrowdedName { name, tools, total });
                }
                several => {
                    for &row in several {
                        hits.ambiguous.push(snapshot.tool(row).id().clone());
                        hits.add(slot(&self.index, row));
                    }
                }
            }
        }
        let mut intents = request.intents.clone();
        if hits.rows.is_empty() && intents.is_empty() {
            // Guessed names say what was wanted.
            intents = hits.unknown.iter().take(MAX_INTENTS).cloned().collect();
        }
        hits.named = hits.rows.len();
        if !intents.is_empty() {
            let limit = request.limit_or(self.options.find_limit);
            let mut select = SelectRequest::of_intents(intents)
                .k(limit)
                .min_score_ratio(self.options.min_score_ratio)
                .fallback(self.options.fallback)
                .context(self.options.context.clone());
            select.namespace.clone_from(&request.namespace);
            select.failed = failed;
            let selection = self.engine.select_among(&self.index, &select, &self.eligible)?;
            for candidate in &selection.candidates {
                if let Some(row) = snapshot.row(&candidate.id) {
                    hits.add(slot(&self.index, row));
                }
            }
            let thresholds = selection.thresholds;
            let words = self.engine.gate().read_words;
            let is_near = |near: &Candidate| {
                // A tool without a vector was judged by its words.
                let is_blind = thresholds.by == GatedBy::Cosine && near.cosine.is_none();
                near.gate.get() >= if is_blind { words } else { thresholds.read }
            };
            let below = |why: &Rejected| matches!(why, Rejected::BelowThreshold { .. });
            let near = selection.rejected.iter().filter(|(near, why)| below(why) && is_near(near));
            let near = near.map(|(near, _)| near.id.clone());
            hits.near = near.filter(|id| !self.is_visible(id)).take(MAX_NEAR).collect();
            if self.trace.is_on() {
                hits.ranked = Some(Box::new((select, selection.clone())));
            }
            if let Outcome::Ambiguous(ids) = selection.outcome {
                hits.ambiguous.extend(ids);
            }
            hits.total = selection.total;
            hits.degraded = selection.degraded;
        }
        hits.total = hits.total.max(hits.rows.len());
        Ok(hits)
    }

    fn reply(
        &self,
        request: &FindRequest,
        hits: Hits,
        visible: &[Slot],
        delta: &Delta,
        repeated: bool,
    ) -> FindReply {
        let loaded: Vec<FoundTool> =
            delta.admitted.iter().filter_map(|(id, _)| self.found(id)).collect();
        let not_loaded: Vec<(FoundTool, RefuseReason)> =
            delta.refused.iter().filter_map(|(id, why)| Some((self.found(id)?, *why))).collect();
        let visible: Vec<FoundTool> =
            visible.iter().filter_map(|slot| self.found(&slot.id)).collect();
        let nothing = loaded.is_empty()
            && visible.is_empty()
            && not_loaded.is_empty()
            && hits.crowded.is_empty();
        let ambiguous: Vec<FoundTool> =
            hits.ambiguous.iter().filter_map(|id| self.found(id)).collect();
        let status = if repeated {
            FindStatus::Repeated
        } else if self.has_nothing_left() && loaded.is_empty() {
            FindStatus::NothingLeft
        } else if nothing {
            FindStatus::NothingFound
        } else if !not_loaded.is_empty() {
            FindStatus::BudgetFull
        } else if !ambiguous.is_empty() || !hits.crowded.is_empty() {
            FindStatus::Ambiguous
        } else if loaded.is_empty() {
            FindStatus::AlreadyVisible
        } else {
            FindStatus::Loaded
        };
        let (mut namespaces, mut loadable): (Vec<&str>, _) = (Vec::new(), Vec::new());
        if nothing {
            let may = |row: usize| self.eligible.contains(row);
            namespaces = self.index.snapshot.namespaces(&may).into_iter().collect();
            loadable = self.loadable();
        }
        FindReply {
            status,
            shown: loaded.len() + visible.len() + not_loaded.len(),
            total: if request.intents.is_empty() && !nothing { 0 } else { hits.total }
                .max(loaded.len() + visible.len() + not_loaded.len()),
            loaded,
            visible,
            not_loaded,
            ambiguous,
            crowded: hits.crowded,
            near: hits.near.iter().filter_map(|id| self.found(id)).collect(),
            unknown_names: hits.unknown,
            definitions: self.definitions(request),
            n_namespaces: namespaces.len(),
            namespaces: namespaces.into_iter().take(MAX_AVAILABLE).map(str::to_owned).collect(),
            n_available: loadable.len(),
            available: loadable.into_iter().take(MAX_AVAILABLE).collect(),
            degraded: hits.degraded,
        }
    }

    fn found(&self, id: &ToolId) -> Option<FoundTool> {
        let snapshot = &self.index.snapshot;
        let row = snapshot.row(id)?;
        let name = snapshot.names().provider_name(row).to_owned();
        Some(FoundTool { id: id.clone(), name, summary: summary(snapshot.tool(row)) })
    }
}

/// What a search found, before anything is loaded.
#[derive(Default)]
struct Hits {
    /// Tools that were named, then ranked ones.
    rows: Vec<Slot>,
    named: usize,
    ambiguous: Vec<ToolId>,
    crowded: Vec<CrowdedName>,
    /// Kept out by the gate of their risk class alone.
    near: Vec<ToolId>,
    unknown: Vec<String>,
    total: usize,
    degraded: Option<String>,
    /// The search behind `rows`, for the trace.
    ranked: Option<Box<(SelectRequest, Selection)>>,
}

impl Hits {
    fn add(&mut self, slot: Slot) {
        if self.rows.iter().all(|other| other.id != slot.id) {
            self.rows.push(slot);
        }
    }
}
