use std::fmt::Write as _;

use expect_test::expect;

use super::{Expression, Variables};

const M5_LARGE: Variables<'_> = Variables {
    vcpus: 2,
    memory_mib: 8192,
    default_enis: 3,
    ips_per_eni: 10,
    max_pods: 29,
    instance_type: "m5.large",
};

fn said(texts: &[&str]) -> String {
    let mut out = String::new();
    for text in texts {
        let shown = text.replace('\n', "\\n");
        let _ = match Expression::compile(text) {
            Ok(expression) => match expression.evaluate(&M5_LARGE) {
                Ok(number) => writeln!(out, "{shown} = {number}"),
                Err(failed) => writeln!(out, "{shown}: {failed}"),
            },
            Err(refused) => writeln!(out, "{shown}: {refused}; {}", refused.hint),
        };
    }
    out
}

#[test]
fn numbers_follow_from_the_instance_type() {
    expect![[r#"
        110 = 110
        vcpus * 4 + 2 = 10
        min(110, default_enis * (ips_per_eni - 1) + 2) = 29
        vcpus > 30 ? 250 : 110 = 110
        vcpus < 1 ? 1 : vcpus < 2 ? 2 : 3 = 3
        memory_mib / 100 = 81
        double(memory_mib) / 100.0 = 81
        int(double(memory_mib) * 0.05) + 255 = 664
        -7 / 2 = -3
        -7 % 3 = -1
        - (2 - 5) = 3
        --5 = 5
        max(2.5, vcpus) = 2
        min(vcpus, 2.5) = 2
        instance_type.startsWith('m5.') && !instance_type.endsWith("metal") ? 50 : 20 = 50
        instance_type in ['c5.large', 'm5.large',] ? 1 : 0 = 1
        instance_type == 'm5' + '.large' ? size(instance_type) : 0 = 8
        true || 1 / 0 == 1 ? 1 : 2 = 1
        1 / 0 == 1 && false ? 1 : 2 = 2
        0x1F + 1e2 > 1.0 ? 1 : 0: column 6: cannot join an integer and a double; write double(…) or int(…) around one of them
        int(1e2) + 0x1F // a comment\n - 1 = 130
        -9223372036854775808 = -9223372036854775808
        1.5 <= 2.5 && 3 >= 3 && 'a' < 'b' && 2 != 3 ? max_pods : 0 = 29
    "#]].assert_eq(&said(&[
        "110",
        "vcpus * 4 + 2",
        "min(110, default_enis * (ips_per_eni - 1) + 2)",
        "vcpus > 30 ? 250 : 110",
        "vcpus < 1 ? 1 : vcpus < 2 ? 2 : 3",
        "memory_mib / 100",
        "double(memory_mib) / 100.0",
        "int(double(memory_mib) * 0.05) + 255",
        "-7 / 2",
        "-7 % 3",
        "- (2 - 5)",
        "--5",
        "max(2.5, vcpus)",
        "min(vcpus, 2.5)",
        "instance_type.startsWith('m5.') && !instance_type.endsWith(\"metal\") ? 50 : 20",
        "instance_type in ['c5.large', 'm5.large',] ? 1 : 0",
        "instance_type == 'm5' + '.large' ? size(instance_type) : 0",
        "true || 1 / 0 == 1 ? 1 : 2",
        "1 / 0 == 1 && false ? 1 : 2",
        "0x1F + 1e2 > 1.0 ? 1 : 0",
        "int(1e2) + 0x1F // a comment\n - 1",
        "-9223372036854775808",
        "1.5 <= 2.5 && 3 >= 3 && 'a' < 'b' && 2 != 3 ? max_pods : 0",
    ]));
}

#[test]
fn what_has_no_value_says_why() {
    expect![[r#"
        1 / (vcpus - 2): divides by zero
        1 % (vcpus - 2): divides by zero
        1.0 / 0.0: gives no finite number
        0.0 / 0.0: gives no finite number
        9223372036854775807 + vcpus: gives a number beyond 64 bits
        - (-9223372036854775808): gives a number beyond 64 bits
        -9223372036854775808 / -1: gives a number beyond 64 bits
        int(1e30): gives a number beyond 64 bits
        1e30: gives a number beyond 64 bits
        1 / 0 == 1 || false ? 1 : 2: divides by zero
    "#]]
    .assert_eq(&said(&[
        "1 / (vcpus - 2)",
        "1 % (vcpus - 2)",
        "1.0 / 0.0",
        "0.0 / 0.0",
        "9223372036854775807 + vcpus",
        "- (-9223372036854775808)",
        "-9223372036854775808 / -1",
        "int(1e30)",
        "1e30",
        "1 / 0 == 1 || false ? 1 : 2",
    ]));
}

#[test]
fn faults_have_column_reason_and_hint() {
    let deep = format!("{}1{}", "(".repeat(60), ")".repeat(60));
    let minus = format!("{}vcpus", "-".repeat(60));
    let long = "1 + ".repeat(1500) + "1";
    let mut found = said(&[
        "",
        "vcpus +",
        "vcpus memory_mib",
        "(vcpus",
        "vcpu * 2",
        "memory_mib / 100.0",
        "vcpus == 2.0 ? 1 : 2",
        "vcpus ? 1 : 2",
        "true ? 1 : 2.0",
        "vcpus > 2",
        "instance_type",
        "min(1)",
        "min(1, 'a')",
        "int('5')",
        "sqrt(4)",
        "instance_type.matches('^m5')",
        "instance_type.family",
        "vcpus.size()",
        "!vcpus ? 1 : 2",
        "-true",
        "vcpus in [1.0]",
        "vcpus in vcpus",
        "[1, 2].map(x, x)",
        "12u",
        "99999999999999999999",
        "9223372036854775808",
        "-9223372036854775809",
        "0x",
        "'open",
        "'\\d' == 'd' ? 1 : 2",
        "'''a''' == 'a' ? 1 : 2",
        "vcpus # 2",
        "é + 1",
        "5.5 % 2.0",
        "true + true",
    ]);
    for text in [&deep, &minus, &long] {
        let refused = Expression::compile(text).unwrap_err();
        let _ = writeln!(found, "{}…: {refused}; {}", &text[..8], refused.hint);
    }
    expect![[r#"
        : column 1: the expression ends too early; add a value
        vcpus +: column 8: the expression ends too early; add a value
        vcpus memory_mib: column 7: the expression ended before this; join it with an operator
        (vcpus: column 7: expected `)`; add it
        vcpu * 2: column 1: vcpu is not a known name; known are vcpus, memory_mib, default_enis, ips_per_eni, max_pods and instance_type
        memory_mib / 100.0: column 12: cannot join an integer and a double; write double(…) or int(…) around one of them
        vcpus == 2.0 ? 1 : 2: column 7: cannot join an integer and a double; write double(…) or int(…) around one of them
        vcpus ? 1 : 2: column 1: is an integer where a boolean is expected; give values of one type
        true ? 1 : 2.0: column 12: is a double where an integer is expected; give values of one type
        vcpus > 2: column 1: gives a boolean; give a number
        instance_type: column 1: gives a text; give a number
        min(1): column 1: min does not take these values; int and double take a number, min and max two, size a text
        min(1, 'a'): column 1: min does not take these values; int and double take a number, min and max two, size a text
        int('5'): column 1: int does not take these values; int and double take a number, min and max two, size a text
        sqrt(4): column 1: sqrt is not a known function; known are int, double, min, max, size, startsWith, endsWith and contains
        instance_type.matches('^m5'): column 15: matches is not a known function; known are int, double, min, max, size, startsWith, endsWith and contains
        instance_type.family: column 15: no value has a field family; known are vcpus, memory_mib, default_enis, ips_per_eni, max_pods and instance_type
        vcpus.size(): column 7: size does not take these values; call it on a text, with a text
        !vcpus ? 1 : 2: column 1: is an integer where a boolean is expected; give values of one type
        -true: column 1: - takes a number and not a boolean; remove the sign
        vcpus in [1.0]: column 11: is a double where an integer is expected; give values of one type
        vcpus in vcpus: column 10: expected a list; write it like ["m5.large", "c5.large"]
        [1, 2].map(x, x): column 1: expected a value and not `[`; add a value before it
        12u: column 1: a number ends in letters; write 12, 1.5 or 0x1f; unsigned integers are not supported
        99999999999999999999: column 1: is beyond 64 bits; write a smaller number
        9223372036854775808: column 1: is beyond 64 bits; write a smaller number
        -9223372036854775809: column 1: is beyond 64 bits; write a smaller number
        0x: column 1: is beyond 64 bits; write a smaller number
        'open: column 1: a text has no end; close its quotes
        '\d' == 'd' ? 1 : 2: column 2: is not an escape; known are \\, \", \', \n and \t
        '''a''' == 'a' ? 1 : 2: column 1: texts in three quotes are not supported; write one quote at each end
        vcpus # 2: column 7: '#' has no meaning here; remove it
        é + 1: column 1: 'é' has no meaning here; remove it
        5.5 % 2.0: column 5: cannot join a double and a double; write double(…) or int(…) around one of them
        true + true: column 6: cannot join a boolean and a boolean; join values of one type
        ((((((((…: column 49: is nested too deeply; nest at most 48 levels
        --------…: column 49: is nested too deeply; nest at most 48 levels
        1 + 1 + …: column 1: has 6001 bytes; write at most 4096
    "#]].assert_eq(&found);
}
