//! Tests with truncated, damaged, rotated and limited journals, and with failing disks.

use std::path::Path;
use std::time::Duration;

use longshore_api::kinds::ObjectKind;
use longshore_api::strip_managed_fields::strip_managed_fields;
use longshore_journal::format::{HEADER_BYTES, header_of};
use longshore_journal::messages;
use longshore_journal::read::{Item, Reader};
use longshore_journal::record::{Record, What};
use longshore_journal::segment::{End, ReadError, name_of};
use longshore_journal::{Journal, Sizes};
use longshore_live::decide::fixture::{JournalFixture, LARGE, segments};
use longshore_live::observe::watch::Change;

/// Everything that can be read, and why it ends.
fn read(path: &Path) -> (Vec<Record>, Result<End, ReadError>) {
    let mut records = Vec::new();
    let mut reader = match Reader::open(path) {
        Ok(reader) => reader,
        Err(error) => return (records, Err(error)),
    };
    let mut last = End::Open { at: 0 };
    loop {
        match reader.next_item() {
            Ok(Some(Item::Record { record, .. })) => records.push(record),
            Ok(Some(Item::Ends { end, .. })) => last = end,
            Ok(Some(Item::Begins { .. })) => {}
            Ok(None) => return (records, Ok(last)),
            Err(error) => return (records, Err(error)),
        }
    }
}

/// A small journal of one segment with several frames, and its bytes.
fn small(name: &str) -> (JournalFixture, Vec<u8>) {
    let mut scene = JournalFixture::new(name, LARGE, &[]);
    for _ in 0..3 {
        scene.churn(4);
        scene.journal.flush();
    }
    let file = segments(&scene.close()).remove(0);
    let bytes = std::fs::read(file).unwrap();
    (scene, bytes)
}

#[test]
fn a_journal_cut_at_any_byte_is_read_up_to_the_cut() {
    let (scene, bytes) = small("cut");
    let file = scene.folder.join("cut.journal");
    std::fs::write(&file, &bytes).unwrap();
    let (all, end) = read(&file);
    assert!(all.len() > 10, "{}", all.len());
    assert_eq!(end.unwrap(), End::Closed);
    let mut before = 0;
    for cut in 0..bytes.len() {
        std::fs::write(&file, &bytes[..cut]).unwrap();
        let (records, end) = read(&file);
        assert_eq!(records, all[..records.len()], "cut at {cut}");
        assert!(
            records.len() >= before,
            "cut at {cut}: less than with a byte less"
        );
        before = records.len();
        match end.unwrap() {
            // Only between two frames: there is nothing to see of the cut.
            End::Open { at } => assert_eq!(at as usize, cut.max(HEADER_BYTES)),
            End::Cut { at } => assert!(
                (at as usize) < cut || cut < HEADER_BYTES,
                "cut at {cut}: {at}"
            ),
            End::Closed => panic!("cut at {cut}: complete"),
        }
    }
    assert_eq!(
        before,
        all.len(),
        "the last frame says only that it is complete"
    );
}

#[test]
fn a_flipped_bit_in_any_byte_is_named_with_its_place() {
    let (scene, bytes) = small("flip");
    let file = scene.folder.join("flip.journal");
    std::fs::write(&file, &bytes).unwrap();
    let (all, _) = read(&file);
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        std::fs::write(&file, &flipped).unwrap();
        let (records, end) = read(&file);
        assert_eq!(records, all[..records.len()], "byte {at}");
        match end.expect_err("a flipped bit is found") {
            ReadError::Foreign { .. } => assert!(at < 8, "byte {at}"),
            ReadError::Corrupt { offset, wrong, .. } => {
                assert!(
                    offset as usize <= at && !wrong.is_empty(),
                    "byte {at}: {offset} {wrong}"
                );
            }
            other => panic!("byte {at}: {other}"),
        }
    }
}

#[test]
fn zeros_at_the_end_are_a_cut_for_the_power_was_lost() {
    let (scene, mut bytes) = small("zeros");
    let file = scene.folder.join("zeros.journal");
    let whole = bytes.len();
    bytes.extend([0; 5000]);
    std::fs::write(&file, &bytes).unwrap();
    assert_eq!(read(&file).1.unwrap(), End::Cut { at: whole as u64 });
    *bytes.last_mut().unwrap() = 1;
    std::fs::write(&file, &bytes).unwrap();
    assert!(read(&file).1.is_err());
}

#[test]
fn what_is_newer_or_no_journal_is_refused_with_a_hint() {
    let (scene, mut bytes) = small("newer");
    let file = scene.folder.join("newer.journal");
    bytes[..HEADER_BYTES].copy_from_slice(&header_of(2));
    std::fs::write(&file, &bytes).unwrap();
    let error = read(&file).1.unwrap_err();
    assert!(
        error.to_string().contains("version 2") && error.hint().contains("newer"),
        "{error}"
    );
    std::fs::write(&file, "apiVersion: v1\nkind: List\n").unwrap();
    let error = read(&file).1.unwrap_err();
    assert!(
        error.to_string().contains("not a journal") && error.hint().contains("--journal"),
        "{error}"
    );
    let error = read(&scene.folder.join("nowhere")).1.unwrap_err();
    assert!(error.to_string().contains("No such file"), "{error}");
    std::fs::create_dir(scene.folder.join("empty")).unwrap();
    let error = read(&scene.folder.join("empty")).1.unwrap_err();
    assert!(error.to_string().contains("no *.journal"), "{error}");
}

#[test]
fn the_limit_of_size_holds_at_every_moment() {
    let sizes = Sizes {
        all: 96 << 10,
        segment: 16 << 10,
    };
    let mut scene = JournalFixture::new("limit", sizes, &[]);
    let (mut largest, mut first) = (0, 1);
    for _ in 0..60 {
        scene.churn(200);
        scene.round();
        scene.journal.flush();
        let files = segments(&scene.path());
        let bytes: u64 = files
            .iter()
            .map(|file| std::fs::metadata(file).unwrap().len())
            .sum();
        largest = largest.max(bytes);
        first = longshore_journal::segment::number_of(&files[0]).unwrap();
        assert_eq!(scene.journal.condition().unwrap().bytes, bytes);
    }
    assert!(largest <= sizes.all && largest > sizes.all / 2, "{largest}");
    assert!(first > 5, "old segments are deleted; the first is {first}");
    assert_eq!(scene.journal.condition().unwrap().lost, 0);
}

#[test]
fn a_limit_too_small_for_the_cluster_stops_the_journal_and_nothing_else() {
    let mut scene = JournalFixture::new(
        "tiny",
        Sizes {
            all: 4 << 10,
            segment: 1 << 10,
        },
        &[],
    );
    for number in 0..2000 {
        scene.pod(number, None);
    }
    scene.close();
    assert!(scene.journal.condition().unwrap().failing);
    scene.pod(1, None);
    scene.round();
}

#[test]
fn what_does_not_fit_into_the_queue_is_counted_and_its_place_marked() {
    let mut scene = JournalFixture::new("gap", LARGE, &[]);
    scene.pod(1, None);
    scene.observe(ObjectKind::Pod, Change::Failed("x".repeat(65 << 20)));
    scene.pod(2, None);
    let path = scene.close();
    assert_eq!(scene.journal.condition().unwrap().lost, 1);
    let (records, _) = read(&path);
    let gap = records
        .iter()
        .position(|record| matches!(record, Record::Gap(gap) if gap.observations == 1))
        .unwrap();
    let text = |record: &Record| format!("{record:?}");
    assert!(text(&records[gap - 1]).contains("web-1") && text(&records[gap + 1]).contains("web-2"));
}

#[test]
fn a_disk_that_says_no_is_asked_again_and_nothing_is_lost() {
    let folder =
        std::env::temp_dir().join(format!("longshore-journal-disk-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    // A folder where the first segment should be.
    std::fs::create_dir_all(folder.join(name_of(1))).unwrap();
    let in_the_way = folder.join("x");
    std::fs::rename(folder.join(name_of(1)), &in_the_way).unwrap();
    let retry = Duration::from_millis(5);
    let journal = Journal::open_retrying(&folder, LARGE, retry).unwrap();
    std::fs::rename(&in_the_way, folder.join(name_of(1))).unwrap();
    journal.observed(1, 1, ObjectKind::Pod, What::Begin, false);
    while !journal.condition().unwrap().failing {
        std::thread::yield_now();
    }
    journal.observed(2, 2, ObjectKind::Pod, What::End, false);
    std::fs::remove_dir(folder.join(name_of(1))).unwrap();
    journal.close();
    let (records, end) = read(&folder);
    assert_eq!((records.len(), end.unwrap()), (2, End::Closed));
    assert!(!journal.condition().unwrap().failing);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn two_processes_do_not_write_to_one_folder() {
    let scene = JournalFixture::new("lock", LARGE, &[]);
    let refused = Journal::open(&scene.path(), LARGE).unwrap_err();
    let refused = longshore_live::error::Failure::from(refused).report();
    assert!(
        refused.contains("another process") && refused.contains("hint"),
        "{refused}"
    );
}

/// A pod as an API server writes it, with what controllers and kubelet add: about 4.6 KB, a quarter
/// of it managed fields.
fn full_pod(number: u64, version: u64) -> String {
    let (a, b) = (
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        number.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ version,
    );
    let name = format!("web-{:010x}-{:05x}", a >> 24, b & 0xfffff);
    let mark = |what: &str| {
        format!(
            r#"{{"manager":"{what}","operation":"Update","apiVersion":"v1","time":"2026-11-01T00:00:07Z","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:generateName":{{}},"f:labels":{{".":{{}},"f:app":{{}},"f:pod-template-hash":{{}}}},"f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"{a:016x}\"}}":{{}}}}}},"f:spec":{{"f:containers":{{"k:{{\"name\":\"c\"}}":{{".":{{}},"f:image":{{}},"f:resources":{{}}}}}},"f:restartPolicy":{{}}}}}}}}"#
        )
    };
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","generateName":"web-{:010x}-","namespace":"shop","uid":"{a:08x}-{b:016x}","resourceVersion":"{}","generation":1,"creationTimestamp":"2026-11-01T00:00:00Z","labels":{{"app":"web","pod-template-hash":"{:010x}","team":"checkout"}},"annotations":{{"prometheus.io/scrape":"true","prometheus.io/port":"9090"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-{:010x}","uid":"{a:016x}","controller":true,"blockOwnerDeletion":true}}],"managedFields":[{},{}]}},"spec":{{"volumes":[{{"name":"kube-api-access-{:05x}","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}},{{"downwardAPI":{{"items":[{{"path":"namespace","fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.namespace"}}}}]}}}}],"defaultMode":420}}}}],"containers":[{{"name":"c","image":"registry.example/shop/web:1.42.7","ports":[{{"containerPort":8080,"protocol":"TCP"}}],"env":[{{"name":"GOMEMLIMIT","value":"500MiB"}},{{"name":"REGION","value":"us-east-1"}}],"resources":{{"limits":{{"memory":"600Mi"}},"requests":{{"cpu":"700m","memory":"600Mi"}}}},"volumeMounts":[{{"name":"kube-api-access-{:05x}","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}],"livenessProbe":{{"httpGet":{{"path":"/healthz","port":8080,"scheme":"HTTP"}},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","serviceAccount":"default","nodeName":"ip-10-0-{}-{}.ec2.internal","securityContext":{{}},"schedulerName":"default-scheduler","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}},{{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority","topologySpreadConstraints":[{{"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"DoNotSchedule","labelSelector":{{"matchLabels":{{"app":"web"}}}}}}]}},"status":{{"phase":"Running","conditions":[{{"type":"Initialized","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-01T00:00:05Z"}},{{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-01T00:00:07Z"}},{{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-01T00:00:05Z"}}],"hostIP":"10.0.{}.{}","podIP":"10.1.{}.{}","startTime":"2026-11-01T00:00:05Z","containerStatuses":[{{"name":"c","state":{{"running":{{"startedAt":"2026-11-01T00:00:06Z"}}}},"lastState":{{}},"ready":true,"restartCount":0,"image":"registry.example/shop/web:1.42.7","imageID":"registry.example/shop/web@sha256:{a:016x}{b:016x}{a:016x}{b:016x}","containerID":"containerd://{b:016x}{a:016x}{b:016x}{a:016x}","started":true}}],"qosClass":"Burstable"}}}}"#,
        a >> 24,
        10_000_000 + number * 7 + version,
        a >> 24,
        a >> 24,
        mark("kube-controller-manager"),
        mark("kubelet"),
        b & 0xfffff,
        b & 0xfffff,
        a & 0xff,
        b & 0xff,
        a & 0xff,
        b & 0xff,
        number & 0xff,
        a & 0x7f
    )
}

/// `cargo test -p longshore --lib -- --nocapture what_it_costs` prints the figures.
#[test]
fn what_it_costs_the_loop_and_the_disk() {
    const PODS: u64 = 20_000;
    let folder =
        std::env::temp_dir().join(format!("longshore-journal-costs-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let sizes = Sizes {
        all: 1 << 30,
        segment: 5 << 20,
    };
    let journal = Journal::open(&folder, sizes).unwrap();
    let texts: Vec<Box<str>> = (0..PODS)
        .map(|number| strip_managed_fields(&full_pod(number, 0)).0)
        .collect();
    let plain: usize = (0..PODS).map(|number| full_pod(number, 0).len()).sum();
    let begun = std::time::Instant::now();
    let mut inside = std::time::Duration::ZERO;
    for (revision, text) in texts.into_iter().enumerate() {
        let what = What::Upsert(text);
        let one = std::time::Instant::now();
        journal.observed(
            1_793_491_200_000,
            revision as u64,
            ObjectKind::Pod,
            what,
            false,
        );
        inside += one.elapsed();
        // As fast as a list comes, and not faster than the queue allows.
        if revision % 5_000 == 4_999 {
            journal.flush();
        }
    }
    journal.flush();
    let took = begun.elapsed();
    let condition = journal.condition().unwrap();
    assert_eq!(condition.lost, 0);
    let each = inside.as_nanos() as u64 / PODS;
    let (bytes, raw) = (condition.bytes / PODS, plain as u64 / PODS);
    let writer = took.as_nanos() as u64 / PODS / 1000;
    // Changed once each: now a segment begins with all of them.
    for number in 0..PODS {
        let what = What::Upsert(strip_managed_fields(&full_pod(number, 1)).0);
        journal.observed(
            1_793_491_300_000,
            PODS + number,
            ObjectKind::Pod,
            what,
            false,
        );
        if number % 5_000 == 4_999 {
            journal.flush();
        }
    }
    journal.close();
    let files = segments(&folder);
    let last = std::fs::metadata(files.last().unwrap()).unwrap().len();
    eprintln!(
        "{each} ns per observation in the loop, {writer} us in the writer; a pod of {raw} bytes takes {bytes} on disk; {} \
         segments, the last of {} KiB",
        files.len(),
        last >> 10,
    );
    assert!(
        each < 100_000 && bytes < raw / 2,
        "{each} ns, {bytes} of {raw} bytes"
    );
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_round_by_price_says_whether_a_policy_failed() {
    let said = |name: &str, config: &str| {
        let files = [("longshore.toml", config.as_bytes())];
        let mut scene = JournalFixture::new(name, LARGE, &files);
        // The first counts as nominated.
        (0..3).for_each(|number| scene.pod(number, None));
        scene.round();
        let (records, _) = read(&scene.close());
        let round = records.iter().find_map(|record| match record {
            Record::Decided(round) => Some(messages::round(round)),
            _ => None,
        });
        round.unwrap()
    };
    let without = said("by-price", "");
    assert!(without.contains(" by price: buys "), "{without}");
    let policy = "[[policy]]\nname = 'discounts'\npath = 'there-is-none.wasm'\n";
    let failed = said("failed", policy);
    assert!(
        failed.contains(" by price (policy discounts failed): buys "),
        "{failed}"
    );
}
