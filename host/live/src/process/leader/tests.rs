//! Replicas that ask the simulated API server for the Lease, in virtual time.

use longshore_simcluster as sim;
use serde_json::{Value, json};
use sim::object::Key;
use sim::server::resources::LEASE;
use sim::server::{DeleteOptions, Server, Subresource, Verdict};
use tokio::task::JoinHandle;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn server() -> Server {
    let begin = "2026-11-24T12:00:00Z".parse().unwrap();
    Server::new(sim::clock::Clock::starting_at(begin), 1)
}

fn lease_key() -> Key {
    Key {
        resource: LEASE,
        namespace: "kube-system".into(),
        name: "longshore".into(),
    }
}

fn spec_of_lease(server: &Server) -> Value {
    let lease = server.get(&lease_key());
    lease.map_or(Value::Null, |lease| lease["spec"].clone())
}

/// A replica that asks for the Lease until it is dropped.
struct Replica {
    leadership: Leadership,
    elector: Arc<Elector>,
    election: JoinHandle<()>,
}

impl Replica {
    fn new(server: &Server, name: &str) -> Replica {
        let leadership = Leadership::new(false);
        let elector = Arc::new(Elector {
            client: server.client(name),
            clock: Clock::starting_at("2026-11-24T12:00:00Z".parse().unwrap()),
            namespace: "kube-system".to_owned(),
            name: "longshore".to_owned(),
            holder: name.to_owned(),
        });
        let own = (elector.clone(), leadership.clone());
        let election = tokio::spawn(async move { run_election(&own.0, &own.1).await });
        Replica {
            leadership,
            elector,
            election,
        }
    }

    fn leads(&self) -> bool {
        self.leadership.is_leader()
    }

    /// The process ends and says nothing.
    fn dies(&self) {
        self.election.abort();
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.election.abort();
    }
}

/// Seconds until something is so, looked at ten times in each.
async fn seconds_until(so: impl Fn() -> bool) -> u64 {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < 60 * SECOND, "it never is");
        sleep(SECOND / 10).await;
    }
    begun.elapsed().as_secs()
}

/// Requests of a replica are answered no more.
fn cut_off(server: &Server, name: &'static str) {
    server.set_gate(Box::new(move |asked| {
        if asked.client == name {
            Verdict::TimeOutBefore
        } else {
            Verdict::Go
        }
    }));
}

#[tokio::test(start_paused = true)]
async fn the_first_replica_that_asks_leads_and_another_does_not() {
    let server = server();
    let first = Replica::new(&server, "a");
    assert_eq!(seconds_until(|| first.leads()).await, 0);
    let second = Replica::new(&server, "b");
    sleep(60 * SECOND).await;
    assert!(first.leads() && !second.leads());
    let spec = spec_of_lease(&server);
    assert_eq!(spec["holderIdentity"], "a");
    assert_eq!(
        (&spec["leaseDurationSeconds"], &spec["leaseTransitions"]),
        (&json!(15), &json!(0))
    );
    let renewed: longshore_api::crd::Timestamp =
        spec["renewTime"].as_str().unwrap().parse().unwrap();
    let age = first.elector.clock.now().as_second() - renewed.as_second();
    assert!(age <= RENEW_INTERVAL.as_secs() as i64, "{age} s");
}

#[tokio::test(start_paused = true)]
async fn of_replicas_that_ask_at_the_same_moment_one_leads() {
    let server = server();
    let all = ["a", "b", "c"].map(|name| Replica::new(&server, name));
    sleep(5 * SECOND).await;
    assert_eq!(all.iter().filter(|replica| replica.leads()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_dies_is_followed_after_15_seconds() {
    let server = server();
    let dead = Replica::new(&server, "a");
    sleep(3 * SECOND).await;
    let next = Replica::new(&server, "b");
    sleep(SECOND).await;
    dead.dies();
    let waited = seconds_until(|| next.leads()).await;
    assert!((15..=17).contains(&waited), "{waited} s");
    assert_eq!(spec_of_lease(&server)["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_acting_before_another_begins() {
    let server = server();
    let (old, new) = (Replica::new(&server, "a"), Replica::new(&server, "b"));
    sleep(5 * SECOND).await;
    assert!(old.leads() && !new.leads());
    cut_off(&server, "a");
    let stopped = seconds_until(|| !old.leads()).await;
    assert!((8..=10).contains(&stopped), "{stopped} s");
    assert!(!new.leads());
    assert!(old.leadership.begin_write().is_err(), "it writes nothing");
    let waited = seconds_until(|| new.leads()).await;
    assert!(waited >= 3, "{waited} s");
    // It hears of the other once it is answered again.
    server.open_gate();
    sleep(60 * SECOND).await;
    assert!(!old.leads() && new.leads());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_is_taken_at_once() {
    let server = server();
    let (old, new) = (Replica::new(&server, "a"), Replica::new(&server, "b"));
    sleep(5 * SECOND).await;
    release(&new.elector).await;
    assert_eq!(
        spec_of_lease(&server)["holderIdentity"],
        "a",
        "it is not its own"
    );
    old.dies();
    release(&old.elector).await;
    let waited = seconds_until(|| new.leads()).await;
    assert!(waited <= RENEW_INTERVAL.as_secs(), "{waited} s");
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_another_has_taken_stops_at_its_next_look() {
    let server = server();
    let leader = Replica::new(&server, "a");
    sleep(SECOND).await;
    let mut take = |lease: &mut Value| lease["spec"]["holderIdentity"] = json!("b");
    server
        .update(&lease_key(), Subresource::Object, &mut take)
        .unwrap();
    let waited = seconds_until(|| !leader.leads()).await;
    assert!(waited <= RENEW_INTERVAL.as_secs(), "{waited} s");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_deletes_is_created_again() {
    let server = server();
    let leader = Replica::new(&server, "a");
    sleep(SECOND).await;
    server
        .delete(&lease_key(), &DeleteOptions::default())
        .unwrap();
    sleep(3 * SECOND).await;
    assert!(leader.leads());
    assert_eq!(spec_of_lease(&server)["holderIdentity"], "a");
}

#[tokio::test(start_paused = true)]
async fn a_write_is_given_no_more_time_than_until_another_may_lead() {
    let forever = Leadership::new(true);
    assert_eq!(forever.begin_write().unwrap().time_left(), WRITE_TIMEOUT);
    let leadership = Leadership::new(false);
    assert_eq!(leadership.begin_write().err(), Some(NotLeading));
    leadership.renew(Instant::now());
    let time_left = || leadership.begin_write().unwrap().time_left();
    assert_eq!(time_left(), LEASE_DURATION);
    tokio::time::advance(9 * SECOND).await;
    assert_eq!(time_left(), LEASE_DURATION - 9 * SECOND);
    tokio::time::advance(SECOND).await;
    assert_eq!(leadership.begin_write().err(), Some(NotLeading));
}

#[tokio::test(start_paused = true)]
async fn a_replica_is_idle_once_every_write_was_answered() {
    let leadership = Leadership::new(true);
    let writes = [(); 2].map(|()| leadership.begin_write().unwrap());
    let idle = tokio::spawn({
        let leadership = leadership.clone();
        async move { leadership.is_idle().await }
    });
    for write in writes {
        sleep(SECOND).await;
        assert!(!idle.is_finished());
        drop(write);
    }
    idle.await.unwrap();
    assert!(leadership.is_leader() && !leadership.is_retiring());
    leadership.retire();
    leadership.retires().await;
    assert!(leadership.is_leader(), "it may finish what is under way");
    leadership.stop();
    assert!(!leadership.is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_term_begins_anew_when_a_replica_leads_again() {
    let leadership = Leadership::new(false);
    tokio::time::advance(SECOND).await;
    leadership.renew(Instant::now());
    let first = leadership.since();
    tokio::time::advance(SECOND).await;
    leadership.renew(Instant::now());
    assert_eq!(leadership.since(), first, "a renewal is no new term");
    leadership.lose();
    leadership.renew(Instant::now());
    assert_eq!(leadership.since(), first + SECOND);
}
