//! `docs/configuration.md`, written from the settings table so that it cannot say anything else.

use std::fmt::Write;

use super::setting::Row;
use super::settings::ROWS;

const HEAD: &str = "\
# Configuration

A TOML file (`kvroute serve --config FILE`), the environment and the flags set the same keys; the later one wins: file, then `DYN_…`
and `OTEL_…`, then `KVROUTE_…`, then flag. A key of `[[pool]]` that is set by environment or flag holds for every pool;
`[[pool.worker]]` is set by the file or by `--worker URL`. `--set KEY=VALUE` sets any other key, in one pool with an index (`--set pool[1].policy=random`).
`kvroute check FILE` tells what is wrong with a file. This page is generated from the settings table of the program.

```toml
[server]
listen = \"0.0.0.0:8080\"

[[pool]]                      # one a served model
tokenizer = \"/models/qwen3-8b\"
policy = \"kv\"
[pool.kv]
temperature = 0.0
[[pool.worker]]
url = \"http://10.0.0.1:8000\"
[[pool.worker]]
url = \"http://10.0.0.2:8000\"
```
";

/// The whole page.
pub(crate) fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut section = String::new();
    for row in ROWS {
        let heading = heading(row.key);
        if heading != section {
            section = heading;
            let _ = write!(
                page,
                "\n## {section}\n\n| key | default | environment, flag | meaning |\n|---|---|---|---|\n"
            );
        }
        page.push_str(&table_line(row));
    }
    page
}

fn heading(key: &str) -> String {
    match key.rsplit_once('.').map_or("", |(section, _)| section) {
        section @ ("pool" | "pool.worker") => format!("[[{section}]]"),
        section => format!("[{section}]"),
    }
}

fn table_line(row: &Row) -> String {
    let name = row.key.rsplit('.').next().unwrap_or(row.key);
    let default = row.default.map_or_else(String::new, |default| format!("`{default}`"));
    let mut others = Vec::new();
    if !row.is_worker() {
        others.push(format!("`{}`", row.env()));
    }
    others.extend(row.dyn_env.or(row.standard_env).map(|variable| format!("`{variable}`")));
    others.extend(row.flag.map(|flag| format!("`--{}`", flag.name)));
    let meaning = format!("{} Value: {}.", row.doc.trim(), row.expected());
    format!("| `{name}` | {default} | {} | {meaning} |\n", others.join(", "))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Set `KVROUTE_BLESS=1` to write the page instead of comparing it.
    #[test]
    fn the_committed_page_is_what_the_table_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        if std::env::var_os("KVROUTE_BLESS").is_some_and(|value| value == "1") {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, page()).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == page(),
            "docs/configuration.md is stale: run `cargo xtask bless` and review what it changed"
        );
    }
}
