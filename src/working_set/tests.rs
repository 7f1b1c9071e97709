use proptest::prelude::*;

use super::*;

/// Tools of the property tests, with their costs.
const COSTS: [TokenCount; 12] = [10, 20, 30, 40, 50, 60, 10, 20, 30, 40, 50, 400];

fn id(n: usize) -> ToolId {
    ToolId::new("t", format!("t{n:02}")).unwrap()
}

fn slot(n: usize) -> Slot {
    Slot { id: id(n), tokens: COSTS[n] }
}

fn slots(list: &[usize]) -> Vec<Slot> {
    list.iter().map(|&n| slot(n)).collect()
}

#[derive(Debug, Clone)]
enum Op {
    Observe(Vec<usize>, Vec<usize>),
    Found(Vec<usize>),
    Called(usize),
    Pin(usize),
    Unpin(usize),
    Release(usize),
    Touch(usize),
    Begin(usize),
    End(usize),
    Epoch,
    Store,
}

fn op() -> impl Strategy<Value = Op> {
    let one = || 0..COSTS.len();
    let some = |most: usize| prop::collection::vec(0..COSTS.len(), 0..most);
    prop_oneof![
        6 => (some(6), some(3)).prop_map(|(retrieved, used)| Op::Observe(retrieved, used)),
        4 => some(5).prop_map(Op::Found),
        1 => one().prop_map(Op::Called),
        1 => one().prop_map(Op::Pin),
        1 => one().prop_map(Op::Unpin),
        1 => one().prop_map(Op::Release),
        1 => one().prop_map(Op::Touch),
        2 => one().prop_map(Op::Begin),
        1 => one().prop_map(Op::End),
        1 => Just(Op::Epoch),
        1 => Just(Op::Store),
    ]
}

/// An active tool of the model.
#[derive(Debug, Clone)]
struct Known {
    n: usize,
    wanted: u64,
    earned: bool,
    held: u64,
}

/// The set as its documentation has it, on plain lists that are searched from end to end.
#[derive(Debug, Clone)]
struct Model {
    options: WorkingSetOptions,
    core: Vec<usize>,
    pinned: Vec<usize>,
    /// From the least to the most recently wanted.
    active: Vec<Known>,
    order: Vec<usize>,
    busy: Vec<usize>,
    step: u64,
    /// Step of the last retrieval.
    retrieved: u64,
}

#[derive(Debug, Default, PartialEq)]
struct Changes {
    admitted: Vec<usize>,
    evicted: Vec<usize>,
    refused: Vec<usize>,
}

impl Model {
    fn visible(&self) -> Vec<usize> {
        self.core.iter().chain(&self.order).copied().collect()
    }

    fn tokens(&self) -> usize {
        5 + self.visible().iter().map(|&n| COSTS[n]).sum::<usize>()
    }

    fn fits(&self, visible: &[usize]) -> bool {
        let tokens = 5 + visible.iter().map(|&n| COSTS[n]).sum::<usize>();
        visible.len() <= self.options.limit && self.options.token_budget.is_none_or(|b| tokens <= b)
    }

    fn is_stale(&self, known: &Known) -> bool {
        self.step - known.wanted > self.options.stale_after
    }

    /// Tools that may leave for what the model asks for, or for what is retrieved; first those that
    /// never earned their place, then by recency.
    fn leavers(&self, demand: bool) -> Vec<usize> {
        let may = |known: &&Known| {
            let this_step = known.wanted == self.step;
            let protected = known.earned && (this_step || known.held >= self.step);
            let free = !protected && !self.busy.contains(&known.n);
            free && (demand || (!this_step && (!known.earned || self.is_stale(known))))
        };
        let list: Vec<&Known> = self.active.iter().filter(may).collect();
        let (earned, mut not): (Vec<&Known>, Vec<&Known>) =
            list.into_iter().partition(|k| k.earned);
        // Of one turn's retrieval the worst, which came last.
        not.reverse();
        not.sort_by_key(|known| known.wanted);
        not.into_iter().chain(earned).map(|known| known.n).collect()
    }

    fn leave(&mut self, n: usize, changes: &mut Changes) {
        self.active.retain(|known| known.n != n);
        self.order.retain(|&other| other != n);
        changes.evicted.push(n);
    }

    fn make_room(&mut self, n: usize, demand: bool, changes: &mut Changes) -> bool {
        let mut without = self.visible();
        let leavers = self.leavers(demand);
        without.retain(|other| !leavers.contains(other));
        without.push(n);
        if !self.fits(&without) {
            return false;
        }
        loop {
            let mut with = self.visible();
            with.push(n);
            if self.fits(&with) {
                return true;
            }
            let swept: Vec<usize> = self
                .active
                .iter()
                .filter(|known| !known.earned && known.wanted < self.retrieved)
                .filter(|known| known.wanted != self.step && !self.busy.contains(&known.n))
                .map(|known| known.n)
                .collect();
            if self.options.timing == Timing::Epoch && !swept.is_empty() {
                swept.into_iter().for_each(|n| self.leave(n, changes));
            } else {
                let first = self.leavers(demand)[0];
                self.leave(first, changes);
            }
        }
    }

    fn want(&mut self, n: usize, reason: AdmitReason, changes: &mut Changes) {
        let earns = reason != AdmitReason::Retrieved;
        if self.core.contains(&n) || self.pinned.contains(&n) {
            return;
        }
        if let Some(place) = self.active.iter().position(|known| known.n == n) {
            let mut known = self.active.remove(place);
            known.wanted = self.step;
            known.earned |= earns;
            if reason == AdmitReason::Found {
                known.held = self.step + 1;
            }
            self.active.push(known);
        } else if self.make_room(n, earns, changes) {
            let held = if earns { self.step + 1 } else { self.step };
            self.active.push(Known { n, wanted: self.step, earned: earns, held });
            self.order.push(n);
            changes.admitted.push(n);
        } else {
            changes.refused.push(n);
        }
    }

    fn want_all(&mut self, list: &[usize], reason: AdmitReason, changes: &mut Changes) {
        let visible = self.visible();
        for &n in list.iter().filter(|n| visible.contains(n)) {
            self.want(n, reason, changes);
        }
        for &n in list.iter().filter(|n| !visible.contains(n)) {
            self.want(n, reason, changes);
        }
    }

    fn evict_stale(&mut self, wanted: &[usize], changes: &mut Changes) {
        let free = |known: &&Known| {
            let held = known.earned && known.held >= self.step;
            let spared = self.busy.contains(&known.n) || wanted.contains(&known.n);
            self.is_stale(known) && !held && !spared
        };
        let stale: Vec<usize> = self.active.iter().filter(free).map(|known| known.n).collect();
        for n in stale {
            self.leave(n, changes);
        }
    }

    fn run(&mut self, op: &Op) -> Changes {
        let mut changes = Changes::default();
        match op {
            Op::Observe(retrieved, used) => {
                self.step += 1;
                self.want_all(used, AdmitReason::Called, &mut changes);
                if self.options.timing == Timing::Immediate {
                    self.evict_stale(retrieved, &mut changes);
                }
                if !retrieved.is_empty() {
                    self.retrieved = self.step;
                }
                self.want_all(retrieved, AdmitReason::Retrieved, &mut changes);
            }
            Op::Found(list) => self.want_all(list, AdmitReason::Found, &mut changes),
            Op::Called(n) => self.want_all(&[*n], AdmitReason::Called, &mut changes),
            Op::Pin(n) => {
                if self.core.contains(n) || self.pinned.contains(n) {
                    return changes;
                }
                let residents: Vec<usize> =
                    self.core.iter().chain(&self.pinned).chain([n]).copied().collect();
                let is_active = self.active.iter().any(|known| known.n == *n);
                if self.fits(&residents) && (is_active || self.make_room(*n, true, &mut changes)) {
                    self.active.retain(|known| known.n != *n);
                    self.pinned.push(*n);
                    if !is_active {
                        self.order.push(*n);
                        changes.admitted.push(*n);
                    }
                }
            }
            Op::Unpin(n) => {
                if self.pinned.contains(n) {
                    self.pinned.retain(|other| other != n);
                    self.active.push(Known { n: *n, wanted: self.step, earned: true, held: 0 });
                }
            }
            Op::Release(n) => {
                if self.active.iter().any(|known| known.n == *n) {
                    self.leave(*n, &mut changes);
                }
            }
            Op::Touch(n) => {
                if let Some(place) = self.active.iter().position(|known| known.n == *n) {
                    let mut known = self.active.remove(place);
                    known.wanted = self.step;
                    known.earned = true;
                    self.active.push(known);
                }
            }
            Op::Begin(n) => self.busy.push(*n),
            Op::End(n) => {
                if let Some(place) = self.busy.iter().position(|busy| busy == n) {
                    self.busy.remove(place);
                }
            }
            Op::Epoch => self.evict_stale(&[], &mut changes),
            // A stored run goes on as if nothing had been, its open calls included.
            Op::Store => {}
        }
        changes
    }
}

fn run(set: &mut WorkingSet, op: &Op) -> Delta {
    match op {
        Op::Observe(retrieved, used) => set.observe(&slots(retrieved), &slots(used)),
        Op::Found(list) => set.admit_found(&slots(list)),
        Op::Called(n) => set.admit_called(&slot(*n)),
        Op::Pin(n) => set.pin(slot(*n)).unwrap_or_default(),
        Op::Release(n) => set.release(&id(*n)),
        Op::Epoch => set.end_epoch(),
        Op::Store => {
            let text = serde_json::to_string(&set.to_state()).unwrap();
            let state: WorkingSetState = serde_json::from_str(&text).unwrap();
            let core = set.core.clone();
            let mut again = WorkingSet::new(set.options.clone(), core, set.reserved).unwrap();
            let cost = |id: &ToolId| Some(COSTS[id.name()[1..].parse::<usize>().unwrap()]);
            assert!(again.take_over(state.clone(), &cost).is_empty());
            assert_eq!(again.to_state(), state);
            *set = again;
            Delta::default()
        }
        other => {
            match other {
                Op::Unpin(n) => set.unpin(&id(*n)),
                Op::Touch(n) => set.touch(&id(*n)),
                Op::Begin(n) => set.begin_call(&id(*n)),
                Op::End(n) => set.end_call(&id(*n)),
                _ => {}
            }
            Delta::default()
        }
    }
}

fn numbers<'a>(ids: impl IntoIterator<Item = &'a ToolId>) -> Vec<usize> {
    ids.into_iter().map(|id| id.name()[1..].parse().unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn behaves_as_the_naive_model(
        ops in prop::collection::vec(op(), 1..60),
        limit in 2_usize..9,
        budget in prop::option::of(60_usize..300),
        stale_after in 0_u64..4,
        immediate: bool,
    ) {
        let timing = if immediate { Timing::Immediate } else { Timing::Epoch };
        let mut options = WorkingSetOptions::default().limit(limit).timing(timing).stale_after(stale_after);
        options.token_budget = budget;
        let core = vec![0, 1];
        let mut set = WorkingSet::new(options.clone(), slots(&core), 5).unwrap();
        let mut model = Model {
            options, core: core.clone(), pinned: Vec::new(), active: Vec::new(), order: Vec::new(),
            busy: Vec::new(), step: 0, retrieved: 0,
        };
        for op in &ops {
            let (before, epoch) = (numbers(set.visible()), set.epoch());
            let earlier = model.clone();
            let delta = run(&mut set, op);
            let changes = model.run(op);
            let after = numbers(set.visible());

            prop_assert_eq!(&after, &model.visible(), "{:?}", op);
            prop_assert_eq!(set.tokens(), model.tokens());
            prop_assert_eq!(numbers(delta.admitted.iter().map(|(id, _)| id)), changes.admitted, "{:?}", op);
            prop_assert_eq!(numbers(delta.evicted.iter().map(|(id, _)| id)), changes.evicted, "{:?}", op);
            prop_assert_eq!(numbers(delta.refused.iter().map(|(id, _)| id)), changes.refused, "{:?}", op);
            prop_assert_eq!(
                numbers(set.active.iter().rev().map(|(id, _)| id)),
                model.active.iter().map(|known| known.n).collect::<Vec<_>>(),
                "recency after {:?}", op
            );

            // What the documentation promises, whatever the model says.
            prop_assert!(set.len() <= limit && budget.is_none_or(|budget| set.tokens() <= budget));
            prop_assert_eq!(&after[..2], &core[..]);
            prop_assert!(model.pinned.iter().all(|n| after.contains(n)));
            prop_assert_eq!(set.epoch() > epoch, delta.new_epoch);
            if !delta.new_epoch {
                prop_assert!(after.starts_with(&before), "{:?}: {before:?} {after:?}", op);
            }
            // The delta is the real difference, in order.
            let mut replayed = before.clone();
            replayed.retain(|n| !changes_evicted(&delta).contains(n));
            let new: Vec<usize> = numbers(delta.admitted.iter().map(|(id, _)| id));
            replayed.extend(new.iter().filter(|n| after.contains(n)));
            prop_assert_eq!(&replayed, &after);
            if !matches!(op, Op::Release(_)) {
                for gone in before.iter().filter(|n| !after.contains(n)) {
                    prop_assert!(!earlier.busy.contains(gone), "{gone} was busy, {op:?}");
                    let found_now = earlier.active.iter().any(|known| {
                        known.n == *gone && known.earned && known.wanted == model.step
                    });
                    prop_assert!(!found_now, "{gone} was wanted in this step, {op:?}");
                }
            }
        }
    }
}

fn changes_evicted(delta: &Delta) -> Vec<usize> {
    numbers(delta.evicted.iter().map(|(id, _)| id))
}

fn set(limit: usize) -> WorkingSet {
    WorkingSet::new(WorkingSetOptions::default().limit(limit), slots(&[0]), 0).unwrap()
}

#[test]
fn touching_saves_a_tool_from_being_the_least_recent() {
    let mut set = set(4);
    set.admit_found(&slots(&[1, 2, 3]));
    for _ in 0..2 {
        set.observe(&[], &[]);
    }
    set.touch(&id(1));
    let delta = set.admit_found(&slots(&[4]));
    assert_eq!(delta.evicted, [(id(2), EvictReason::LeastRecent)]);
}

#[test]
fn what_was_merely_retrieved_in_this_step_yields_to_what_the_model_asks_for() {
    let mut set = set(4);
    // Best first: the worst fit goes.
    set.observe(&slots(&[1, 2, 3]), &[]);
    let delta = set.admit_found(&slots(&[4]));
    assert_eq!(delta.evicted, [(id(3), EvictReason::LeastRecent)]);
    assert!(delta.refused.is_empty());
    // Retrieval does not push out what was retrieved with it.
    assert_eq!(set.observe(&slots(&[1, 2, 4, 5]), &[]).refused.len(), 1);
}

#[test]
fn nothing_leaves_in_vain() {
    let options = WorkingSetOptions::default().token_budget(100);
    let mut set = WorkingSet::new(options, Vec::new(), 0).unwrap();
    set.observe(&[], &slots(&[1, 4]));
    set.begin_call(&id(4));
    for _ in 0..9 {
        set.observe(&[], &[]);
    }
    // 20 could be freed of 70, and 60 are needed.
    let delta = set.admit_found(&slots(&[5]));
    assert_eq!(delta.refused, [(id(5), RefuseReason::TokenBudget)]);
    assert!(delta.evicted.is_empty() && !delta.new_epoch);
}

#[test]
fn a_pin_that_there_is_no_room_for_is_refused_and_changes_nothing() {
    let mut set = set(3);
    set.admit_found(&slots(&[1, 2]));
    let error = set.pin(slot(3)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BudgetTooSmall);
    insta::assert_snapshot!(error, @"there is no room to pin t/t03, because the other tools are in use: pin it in a later step or raise the limits");
    assert_eq!(numbers(set.visible()), [0, 1, 2]);
    // An active tool may be pinned any time; it keeps its place.
    assert!(!set.pin(slot(1)).unwrap().changes_list());
    set.pin(slot(2)).unwrap();
    insta::assert_snapshot!(set.pin(slot(3)).unwrap_err(), @"4 core and pinned tools are more than the limit of 3: raise the limit or keep fewer resident");
    set.unpin(&id(2));
    for _ in 0..2 {
        set.observe(&[], &[]);
    }
    set.pin(slot(3)).unwrap();
    assert_eq!(numbers(set.visible()), [0, 1, 3]);
}

#[test]
fn immediate_timing_evicts_at_once_and_epoch_timing_at_its_end() {
    for timing in [Timing::Immediate, Timing::Epoch] {
        let options = WorkingSetOptions::default().timing(timing).stale_after(2);
        let mut set = WorkingSet::new(options, slots(&[0]), 0).unwrap();
        set.observe(&slots(&[1]), &[]);
        set.observe(&[], &[]);
        set.observe(&[], &[]);
        assert!(set.contains(&id(1)));
        let delta = set.observe(&[], &[]);
        let stale = vec![(id(1), EvictReason::Stale { idle: 3 })];
        match timing {
            Timing::Immediate => assert_eq!(delta.evicted, stale),
            Timing::Epoch => {
                assert!(!delta.changes_list() && set.epoch() == 0);
                assert_eq!(set.end_epoch().evicted, stale);
                assert_eq!(set.epoch(), 1);
            }
        }
        // A stale tool that is wanted again stays where it is.
        set.observe(&slots(&[2]), &[]);
        for _ in 0..9 {
            set.observe(&slots(&[3]), &[]);
        }
        let delta = set.observe(&slots(&[2, 3]), &[]);
        assert_eq!(delta.evicted.len(), 0);
    }
}

#[test]
fn a_core_tool_that_was_active_meanwhile_is_there_once() {
    let mut set = set(5);
    set.reconcile(Vec::new(), &|_| Some(10));
    set.admit_found(&slots(&[0, 1]));
    let delta = set.reconcile(slots(&[0, 2]), &|_| Some(10));
    assert_eq!(numbers(set.visible()), [0, 2, 1]);
    assert_eq!(delta.admitted, [(id(2), AdmitReason::Listed)]);
    assert!(delta.new_epoch);
}

#[test]
fn a_grown_definition_makes_room_at_the_next_change_of_the_catalog() {
    let options = WorkingSetOptions::default().token_budget(100);
    let mut set = WorkingSet::new(options, Vec::new(), 0).unwrap();
    set.observe(&slots(&[1, 2, 3]), &[]);
    set.observe(&[], &[]);
    let delta = set.reconcile(Vec::new(), &|id| Some(if *id == slot(1).id { 70 } else { 20 }));
    assert_eq!(delta.evicted.len(), 1);
    assert!(set.tokens() <= 100);
}

#[test]
fn stored_steps_of_the_far_future_do_no_harm() {
    let mut set = set(3);
    set.observe(&slots(&[1]), &[]);
    let mut state = set.to_state();
    (state.step, state.epoch) = (u64::MAX, u64::MAX);
    state.active[0].wanted = u64::MAX;
    state.active[0].held = u64::MAX;
    state.order.push(id(9));
    state.busy.push(id(9));
    state.active.push(state.active[0].clone());
    let mut again = WorkingSet::new(set.options.clone(), slots(&[0]), 0).unwrap();
    again.take_over(state, &|_| Some(usize::MAX));
    again.observe(&slots(&[2]), &[]);
    again.end_epoch();
    assert!(again.len() <= 3);
}

#[test]
fn impossible_settings_are_errors_when_built() {
    let build = |options: WorkingSetOptions, core: &[usize], reserved| {
        WorkingSet::new(options, slots(core), reserved).unwrap_err()
    };
    let default = WorkingSetOptions::default;
    let messages = [
        build(default().limit(0), &[], 0),
        build(default().token_budget(0), &[], 0),
        build(default().limit(1), &[0, 1], 0),
        build(default().token_budget(29), &[0, 1], 0),
        build(default().token_budget(100), &[], 101),
    ];
    let text: Vec<String> = messages.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(text.join("\n"), @r"
    the tool limit is 0: allow at least one tool
    the token budget is 0: allow some tokens or set none
    2 core and pinned tools are more than the limit of 1: raise the limit or keep fewer resident
    core and pinned tools and the meta-tool take 30 tokens of a budget of 29: raise the budget or keep fewer resident
    core and pinned tools and the meta-tool take 101 tokens of a budget of 100: raise the budget or keep fewer resident
    ");
    assert!(WorkingSet::new(default().limit(1), slots(&[0, 0]), 0).is_ok());
}
