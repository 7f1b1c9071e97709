//! Many runs on one engine, while the catalog and the model change under them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use toolrack::trace::{Event, TraceSink};
use toolrack::{
    AsyncSession, Call, Catalog, Embedder, Engine, ErrorKind, FindRequest, Listing, Result,
    RuntimeContext, SelectRequest, Session, SessionOptions, SourceUpdate, Tool, Verdict,
};

use crate::fixtures::{Mood, Words, many, tool};

#[test]
fn shared_types_are_send_and_sync() {
    fn check<T: Send + Sync>() {}
    fn moves<T: Send>() {}
    check::<Engine>();
    check::<Catalog>();
    check::<AsyncSession>();
    check::<Session>();
    check::<toolrack::Visible>();
    check::<toolrack::Turn>();
    check::<toolrack::Error>();
    moves::<Verdict>();
}

#[test]
fn a_hundred_runs_while_everything_changes() {
    let generation = |marker: usize| -> Vec<Tool> {
        let mut tools = many(40);
        tools.extend(
            (0..10).map(|n| tool(&format!("gen/tool_{n}"), &format!("marker{marker} works."))),
        );
        tools
    };
    let engine = Engine::builder(Catalog::from_tools(generation(0)).unwrap())
        .embedder(Words::new("words/0", 32))
        .build()
        .unwrap();
    let done = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let refresher = {
            let (engine, done) = (&engine, Arc::clone(&done));
            scope.spawn(move || {
                for marker in 1..15 {
                    engine.refresh("catalog", Listing::from_tools(generation(marker))).unwrap();
                    let model = Words::new(&format!("words/{marker}"), 16 + marker);
                    if marker % 3 == 0 {
                        model.set(Mood::Down);
                        engine.swap(model).unwrap_err();
                    } else {
                        engine.swap(model).unwrap();
                    }
                    if marker % 4 == 0 {
                        engine
                            .refresh("catalog", SourceUpdate::Unreachable("down".into()))
                            .unwrap();
                    }
                }
                done.store(true, Ordering::Relaxed);
            })
        };
        for n in 0..100_usize {
            let (engine, done) = (&engine, Arc::clone(&done));
            scope.spawn(move || {
                let options = SessionOptions::default().core(["gen/tool_0"]).limit(6).retrieve(2);
                let mut run = engine.session(options.clone()).unwrap();
                let own = format!("gen/tool_{}", n % 10);
                run.pin(&own).unwrap();
                let mut rounds = 0;
                while rounds < 2 || (!done.load(Ordering::Relaxed) && rounds < 40) {
                    rounds += 1;
                    let turn = run.turn("archive the shipment").unwrap();
                    // One list is of one version, whatever is published meanwhile.
                    let markers: Vec<&str> = turn
                        .visible
                        .tools()
                        .iter()
                        .filter(|shown| shown.tool.namespace() == "gen")
                        .map(|shown| shown.tool.description())
                        .collect();
                    assert!(markers.windows(2).all(|pair| pair[0] == pair[1]), "{markers:?}");
                    assert!(turn.visible.tools().len() <= 6);
                    assert!(turn.visible.contains(&own.replace('/', "__")));
                    let request = FindRequest::new("export a playlist");
                    let reply = run.find_tool(&request).unwrap();
                    for found in &reply.loaded {
                        assert!(run.visible().contains(&found.name));
                    }
                    let call = Call::new(own.replace('/', "__"), json!({}));
                    match run.authorize(&call).unwrap() {
                        Verdict::Run(tool) => run.record_use(&tool),
                        other => panic!("{other:?}"),
                    }
                    let (again, report) = engine.restore(options.clone(), run.to_state()).unwrap();
                    assert!(report.left_out.is_empty(), "{report:?}");
                    run = again;
                }
            });
        }
        refresher.join().unwrap();
    });
    assert_eq!(engine.fingerprint().as_deref(), Some("words/14"));
    assert_eq!(engine.vectors().unwrap().len(), 50);
}

#[test]
fn runs_of_different_callers_never_mix() {
    let mut tools = many(30);
    for tenant in 0..20 {
        let mut policy = toolrack::ToolPolicy::default();
        policy.tenants = vec![format!("tenant_{tenant}")];
        tools.push(
            Tool::builder(format!("secret_of_tenant_{tenant}_end"))
                .description("Archive the shipment.")
                .policy(policy)
                .build()
                .unwrap(),
        );
    }
    let engine = Engine::builder(Catalog::from_tools(tools).unwrap()).build().unwrap();
    std::thread::scope(|scope| {
        for n in 0..100 {
            let engine = &engine;
            scope.spawn(move || {
                let own = format!("secret_of_tenant_{}_end", n % 20);
                let context = RuntimeContext::default().tenant(format!("tenant_{}", n % 20));
                let mut run =
                    engine.session(SessionOptions::default().limit(8).context(context)).unwrap();
                let names = (0..20).map(|tenant| format!("secret_of_tenant_{tenant}_end"));
                let reply = run.find_tool(&FindRequest::of_names(names)).unwrap();
                assert_eq!((reply.loaded.len(), reply.unknown_names.len()), (1, 19));
                for _ in 0..3 {
                    let turn = run.turn("archive the shipment").unwrap();
                    let reply = run.find_tool(&FindRequest::new("archive the shipment")).unwrap();
                    let text = format!("{turn:?} {reply}");
                    assert!(text.contains(&own));
                    assert!(!text.replace(&own, "").contains("secret_of"), "{text}");
                }
            });
        }
    });
}

#[test]
fn two_engines_on_one_catalog() {
    let catalog = Catalog::from_tools(many(10)).unwrap();
    let engines = [
        Engine::builder(catalog.clone()).embedder(Words::new("a", 8)).build().unwrap(),
        Engine::builder(catalog.clone()).without_embedder().build().unwrap(),
    ];
    std::thread::scope(|scope| {
        for (n, engine) in engines.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..20 {
                    let listing = Listing::from_tools([tool(
                        &format!("e{n}/tool"),
                        &format!("Round {round}."),
                    )]);
                    engine.refresh(format!("source_{n}"), listing).unwrap();
                }
            });
        }
    });
    for engine in &engines {
        engine.sync().unwrap();
        assert_eq!(engine.snapshot().len(), 12);
        assert!(Arc::ptr_eq(&engine.snapshot(), &catalog.snapshot()));
    }
    assert_eq!(catalog.snapshot().version(), 41);
}

/// Answers after a while.
#[derive(Debug)]
struct Slow(Words);

impl Embedder for Slow {
    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        self.0.embed_documents(texts)
    }

    fn embed_queries(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        std::thread::sleep(Duration::from_millis(30));
        self.0.embed_queries(texts)
    }

    fn dimensions(&self) -> usize {
        self.0.dimensions
    }

    fn max_tokens(&self) -> usize {
        64
    }

    fn fingerprint(&self) -> String {
        self.0.fingerprint.clone()
    }
}

fn slow() -> Session {
    let engine = Engine::builder(Catalog::from_tools(many(40)).unwrap())
        .embedder(Slow(Words::new("slow", 16)))
        .build()
        .unwrap();
    engine.session(SessionOptions::default().limit(6).retrieve(2)).unwrap()
}

async fn whole_run(run: AsyncSession) {
    let turn = run.turn("archive the shipment").await.unwrap();
    assert_eq!(turn.visible.tools().len(), 2);
    let reply = run.find_tool(FindRequest::of_names(["list_playlist_30"])).await.unwrap();
    assert_eq!(reply.loaded.len(), 1);
    assert!(run.visible().await.unwrap().contains("area_0__list_playlist_30"));
    let call = Call::new("area_0__list_playlist_30", json!({}));
    match run.authorize(call).await.unwrap() {
        Verdict::Run(tool) => run.record_use(tool).await.unwrap(),
        other => panic!("{other:?}"),
    }
    assert_eq!(run.step().await.unwrap().delta.touched.len(), 1);
    assert!(run.visible().await.unwrap().contains("area_0__list_playlist_30"));
    let state = run.with(|session| session.to_state()).await.unwrap();
    assert_eq!(state.recent.len(), 1);
    assert!(run.with(|session| session.pin("nobody").map(|_| ())).await.unwrap().is_err());
}

#[test]
fn an_async_run_on_one_thread_leaves_the_loop_free() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let ticks = tokio::spawn(async {
            let mut ticks = 0;
            loop {
                tokio::task::yield_now().await;
                ticks += 1;
                if ticks == 1_000 {
                    return ticks;
                }
            }
        });
        whole_run(AsyncSession::new(slow())).await;
        assert_eq!(ticks.await.unwrap(), 1_000);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn async_runs_on_many_threads() {
    let runs: Vec<_> =
        (0..16).map(|_| tokio::spawn(whole_run(AsyncSession::new(slow())))).collect();
    for run in runs {
        run.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_on_one_run_come_one_after_another_in_order() {
    let run = AsyncSession::new(slow());
    let calls: Vec<_> = (0..8)
        .map(|n| {
            let run = run.clone();
            async move { run.turn(format!("message {n}")).await.unwrap() }
        })
        .collect();
    // Polled in this order by join.
    let mut set = Vec::new();
    for call in calls {
        let mut call = Box::pin(call);
        let _ = futures_poll_once(&mut call).await;
        set.push(call);
    }
    for call in set {
        call.await;
    }
    let recent = run.with(|session| session.to_state().recent).await.unwrap();
    let said: Vec<&str> = recent.iter().map(|message| message.text.as_str()).collect();
    assert_eq!(
        said,
        ["message 2", "message 3", "message 4", "message 5", "message 6", "message 7"]
    );
}

/// Polls `future` once, so that it takes its place in the queue.
async fn futures_poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| match std::pin::Pin::new(&mut *future).poll(context) {
        std::task::Poll::Ready(value) => std::task::Poll::Ready(Some(value)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn a_dropped_call_leaves_the_run_in_order() {
    let run = AsyncSession::new(slow());
    // Dropped before its turn comes: it never happens.
    let mut first = Box::pin(run.turn("the first message"));
    assert!(futures_poll_once(&mut first).await.is_none());
    let mut second = Box::pin(run.turn("the second message"));
    assert!(futures_poll_once(&mut second).await.is_none());
    drop(second);
    first.await.unwrap();
    let recent = |run: &AsyncSession| {
        let run = run.clone();
        async move { run.with(|session| session.to_state().recent).await.unwrap() }
    };
    assert_eq!(recent(&run).await.len(), 1);

    // Dropped once it has begun: it is carried through, and the next call waits for it.
    let mut begun = Box::pin(run.turn("the third message"));
    assert!(futures_poll_once(&mut begun).await.is_none());
    drop(begun);
    assert_eq!(recent(&run).await.len(), 2);

    // By a timeout, as runtimes do it.
    let late = tokio::time::timeout(Duration::from_millis(1), run.turn("the fourth message")).await;
    assert!(late.is_err());
    assert_eq!(recent(&run).await.len(), 3);
    assert!(run.turn("archive the shipment").await.is_ok());
}

/// Open calls of the run, as its stored state has them.
async fn busy(run: &AsyncSession) -> usize {
    run.with(|session| session.to_state().working_set.busy.len()).await.unwrap()
}

/// A trace that takes its time, so that a verdict does too.
struct SlowTrace;

impl TraceSink for SlowTrace {
    fn write(&mut self, _: Event) -> std::io::Result<()> {
        std::thread::sleep(Duration::from_millis(20));
        Ok(())
    }
}

#[tokio::test]
async fn a_verdict_that_nobody_received_holds_no_tool() {
    let run = AsyncSession::new(slow());
    run.find_tool(FindRequest::of_names(["list_playlist_30"])).await.unwrap();
    run.visible().await.unwrap();
    run.with(|session| session.trace_to(SlowTrace)).await.unwrap();
    let call = || Call::new("area_0__list_playlist_30", json!({}));
    // Dropped while it is at work, and after it is done.
    for wait in [0, 200] {
        let mut asked = Box::pin(run.authorize(call()));
        assert!(futures_poll_once(&mut asked).await.is_none());
        tokio::time::sleep(Duration::from_millis(wait)).await;
        drop(asked);
        assert_eq!(busy(&run).await, 0, "dropped after {wait} ms");
    }
    // A verdict that is received counts, also while others are dropped.
    let Verdict::Run(tool) = run.authorize(call()).await.unwrap() else { panic!() };
    let mut waiting = Box::pin(run.authorize(call()));
    assert!(futures_poll_once(&mut waiting).await.is_none());
    let mut dropped = Box::pin(run.authorize(call()));
    assert!(futures_poll_once(&mut dropped).await.is_none());
    drop(dropped);
    // Ready, but not looked at yet: it is still waited for.
    let open = busy(&run).await;
    assert!(matches!(waiting.await.unwrap(), Verdict::Run(_)));
    assert_eq!((open, busy(&run).await), (2, 2));
    run.record_use(tool).await.unwrap();
    assert_eq!(busy(&run).await, 1);
}

#[tokio::test]
async fn a_panic_in_one_call_is_that_calls_failure() {
    let words = Words::new("words", 16);
    let engine = Engine::builder(Catalog::from_tools(many(40)).unwrap())
        .embedder(words.clone())
        .build()
        .unwrap();
    let run =
        AsyncSession::new(engine.session(SessionOptions::default().limit(6).retrieve(2)).unwrap());
    words.set(Mood::Panics);
    let error = run.turn("archive the shipment").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Task);
    insta::assert_snapshot!(error, @"a session's background task was cancelled or panicked");
    words.set(Mood::Well);
    assert_eq!(run.turn("archive the shipment").await.unwrap().visible.tools().len(), 2);
    // A refresh that panics leaves the old index, and the next one goes through.
    let refresh = |marker: usize| {
        engine.refresh("s", Listing::from_tools([tool("n/a", &format!("marker {marker}"))]))
    };
    words.set(Mood::Panics);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| refresh(1)));
    assert!(panicked.is_err());
    assert_eq!(engine.snapshot().len(), 40);
    assert_eq!(engine.catalog().snapshot().len(), 40);
    words.set(Mood::Well);
    assert_eq!(refresh(2).unwrap().added.len(), 1);
    assert_eq!(engine.select(&SelectRequest::new("marker")).unwrap().candidates[0].id.name(), "a");
}
