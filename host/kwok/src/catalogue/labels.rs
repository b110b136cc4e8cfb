//! The labels of KWOK's instance types, determined by asking Karpenter 1.14 which types match which
//! label.

use longshore_api::labels::{self, kwok};
use longshore_core::model::{Op, Requirement, Symbols};

/// What the labels of a type follow from.
pub(super) struct Shape<'a> {
    pub name: &'a str,
    /// `amd64` or `arm64`.
    pub arch: &'a str,
    /// Operating systems that it runs.
    pub systems: &'a [&'a str],
    /// CPUs and memory as Kubernetes writes them in shortest form.
    pub cpu: &'a str,
    pub memory: &'a str,
}

/// Labels of a type as requirements.
pub(super) fn type_requirements(shape: &Shape<'_>, names: &mut Symbols) -> Vec<Requirement> {
    let is = |key: &str, value: &str, names: &mut Symbols| {
        let key = names.intern(key);
        Requirement::is(key, names.intern(value))
    };
    let mut all = vec![
        is(labels::INSTANCE_TYPE, shape.name, names),
        is(labels::ARCH, shape.arch, names),
    ];
    let systems = shape.systems.iter().map(|os| names.intern(os)).collect();
    all.push(Requirement::new(names.intern(labels::OS), Op::In(systems)));
    for (key, value) in [
        (kwok::FAMILY, family(shape.name)),
        (kwok::SIZE, size(shape.name, shape.cpu)),
        (kwok::CPU, shape.cpu),
        (kwok::MEMORY, shape.memory),
    ] {
        all.push(is(key, value, names));
    }
    all
}

/// The name up to its first dot or dash; the first letter of a name without either.
fn family(name: &str) -> &str {
    match name.find(['.', '-']) {
        Some(end) => &name[..end],
        None => name
            .chars()
            .next()
            .map_or("", |first| &name[..first.len_utf8()]),
    }
}

/// The second half of names like EC2's (`m5.2xlarge`); otherwise the number of CPUs.
fn size<'a>(name: &'a str, cpu: &'a str) -> &'a str {
    match name.split_once('.') {
        Some((family, size))
            if family.bytes().all(|b| b.is_ascii_alphanumeric()) && is_ec2_size(size) =>
        {
            size
        }
        _ => cpu,
    }
}

fn is_ec2_size(size: &str) -> bool {
    let plain = ["nano", "micro", "small", "medium", "large", "metal"].contains(&size);
    plain
        || size
            .strip_suffix("xlarge")
            .is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
}

/// A quantity in the shortest form that Kubernetes writes: `16384Mi` is `16Gi`, `4000m` is `4`,
/// `1000` is `1k`. `milli` is its amount in thousandths.
pub(super) fn shortest(text: &str, milli: i64) -> String {
    if milli % 1000 != 0 {
        return format!("{milli}m");
    }
    let binary = text.ends_with('i');
    let (step, suffixes) = if binary {
        (1024, ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
    } else {
        (1000, ["", "k", "M", "G", "T", "P", "E"])
    };
    let (mut amount, mut at) = (milli / 1000, 0);
    while amount != 0 && amount % step == 0 && at + 1 < suffixes.len() {
        amount /= step;
        at += 1;
    }
    format!("{amount}{}", suffixes[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_and_size_follow_from_the_name_as_karpenter_has_them() {
        // Recorded from Karpenter 1.14.1: which types does `instance-family In […]` and
        // `instance-size In […]` admit?
        for (name, family_wanted, size_wanted) in [
            ("plain", "p", "#"),
            ("a.b.c", "a", "#"),
            ("x-y", "x", "#"),
            ("p-q-r-s-t", "p", "#"),
            ("n-4x.b", "n", "#"),
            ("c-4x-amd64-linux", "c", "#"),
            ("m7i.metal-24xl", "m7i", "#"),
            ("m7i-flex.large", "m7i", "#"),
            ("u-6tb1.metal", "u", "#"),
            ("M5.Large", "M5", "#"),
            ("ab.2xlarge", "ab", "2xlarge"),
            ("m5.large", "m5", "large"),
            ("5.large", "5", "large"),
            ("t3.nano", "t3", "nano"),
            ("a1.metal", "a1", "metal"),
            ("inf2.48xlarge", "inf2", "48xlarge"),
            ("m5.2xlarge.z", "m5", "#"),
        ] {
            assert_eq!(
                (family(name), size(name, "#")),
                (family_wanted, size_wanted),
                "{name}"
            );
        }
    }

    #[test]
    fn quantities_have_a_shortest_form() {
        for (text, milli, wanted) in [
            ("16384Mi", 16384 << 20, "16Gi"),
            ("1.5Gi", 1536 << 20, "1536Mi"),
            ("2048Gi", 2048 << 30, "2Ti"),
            ("16G", 16_000_000_000, "16G"),
            ("4", 4, "4"),
            ("1000", 1000, "1k"),
        ] {
            assert_eq!(shortest(text, milli * 1000), wanted);
        }
        assert_eq!(shortest("0.5", 500), "500m");
        assert_eq!(shortest("4000m", 4000), "4");
    }
}
