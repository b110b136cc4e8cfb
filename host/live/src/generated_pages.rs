//! Pages of documentation with sections that are generated from the code, for tests that compare
//! them.

/// The page with `generated` between the markers of a section.
///
/// # Panics
/// The page has no such section.
pub fn with_section(page: &str, name: &str, generated: &str) -> String {
    let begin = format!("<!-- generated: {name} -->\n");
    let (before, rest) = page
        .split_once(&begin)
        .unwrap_or_else(|| panic!("no section {name}"));
    let (_, after) = rest
        .split_once("<!-- end -->")
        .unwrap_or_else(|| panic!("section {name} has no end"));
    format!("{before}{begin}\n{generated}\n<!-- end -->{after}")
}

/// A table of Markdown.
pub fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let head = line(head.iter().map(|&cell| cell.to_owned()).collect());
    let rule = format!("{}|\n", "|---".repeat(head.matches(" | ").count() + 1));
    rows.into_iter().fold(head + &rule, |all, cells| {
        all + &line(cells.iter().map(|cell| escaped(cell)).collect())
    })
}

fn escaped(cell: &str) -> String {
    cell.replace('|', "\\|")
}
