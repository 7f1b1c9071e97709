//! Which tool of a working set makes room.

use toolrack::{Slot, ToolId, WorkingSet, WorkingSetOptions};

fn slot(name: &str) -> Slot {
    Slot { id: ToolId::new("demo", name).unwrap(), tokens: 100 }
}

fn slots(names: &[&str]) -> Vec<Slot> {
    names.iter().map(|name| slot(name)).collect()
}

fn names(set: &WorkingSet) -> Vec<&str> {
    set.visible().map(ToolId::name).collect()
}

#[test]
fn what_fits_a_message_best_stays_when_the_model_asks_for_more() {
    let mut set = WorkingSet::new(WorkingSetOptions::default().limit(3), Vec::new(), 0).unwrap();
    set.observe(&slots(&["best", "second", "worst"]), &[]);
    set.observe(&[], &[]);

    let delta = set.admit_found(&slots(&["asked"]));
    assert_eq!(delta.evicted[0].0.name(), "worst");
    assert_eq!(names(&set), ["best", "second", "asked"]);
}

#[test]
fn what_an_older_message_brought_goes_before_what_a_newer_one_did() {
    let mut set = WorkingSet::new(WorkingSetOptions::default().limit(3), Vec::new(), 0).unwrap();
    set.observe(&slots(&["older"]), &[]);
    set.observe(&slots(&["newer", "newest"]), &[]);
    set.observe(&[], &[]);

    set.admit_found(&slots(&["asked"]));
    assert_eq!(names(&set), ["newer", "newest", "asked"]);
}

#[test]
fn among_called_tools_the_one_called_first_goes() {
    let mut set = WorkingSet::new(WorkingSetOptions::default().limit(2), Vec::new(), 0).unwrap();
    set.observe(&[], &slots(&["first", "second"]));
    set.observe(&[], &[]);
    set.observe(&[], &[]);

    set.admit_found(&slots(&["asked"]));
    assert_eq!(names(&set), ["second", "asked"]);
}
