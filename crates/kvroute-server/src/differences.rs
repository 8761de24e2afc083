//! What a new configuration changes of a server's own settings: their names, never a value, which may be a secret.
//!
//! Settings are compared as they may be shown, so that a new one is told of without a line here. What stands in a file
//! beside the configuration is a part of the setting that names the file.

use serde_json::{Map, Value};

use crate::named_file::NamedFile;

/// The table of the settings that are the server's own. What differs elsewhere is told by those whose settings it is.
const TABLE: &str = "server";

/// Keys of the settings that have another value in `now`, each once.
pub(crate) fn of_settings(before: &Map<String, Value>, now: &Map<String, Value>) -> Vec<String> {
    let mut names = Vec::new();
    compare(TABLE, before.get(TABLE), now.get(TABLE), &mut names);
    names
}

/// Settings that name another file, none any more, or one in which something else stands.
pub(crate) fn of_files(before: &[NamedFile], now: &[NamedFile]) -> Vec<String> {
    let in_files = |files: &[NamedFile], setting: &str| -> Option<NamedFile> {
        files.iter().find(|file| file.setting == setting).cloned()
    };
    let gone = before.iter().filter(|file| in_files(now, &file.setting).is_none());
    let gone = gone.map(|file| file.setting.clone());
    let other = now.iter().filter_map(|file| match in_files(before, &file.setting) {
        Some(known) if known == *file => None,
        Some(known) if known.path == file.path => Some(format!("{} (what is in the file)", file.setting)),
        _ => Some(file.setting.clone()),
    });
    gone.chain(other).collect()
}

fn compare(key: &str, before: Option<&Value>, now: Option<&Value>, names: &mut Vec<String>) {
    if before == now {
        return;
    }
    let fields = |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
    let (old, new) = (fields(before), fields(now));
    if old.is_empty() && new.is_empty() {
        names.push(key.to_owned());
        return;
    }
    let mut keys: Vec<_> = old.keys().chain(new.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    for name in keys {
        compare(&format!("{key}.{name}"), old.get(name), new.get(name), names);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(server: Value) -> Map<String, Value> {
        Map::from_iter([("server".to_owned(), server), ("log".to_owned(), json!({"access": true}))])
    }

    #[test]
    fn a_setting_is_named_by_its_key_and_no_value_is_told() {
        let before =
            shown(json!({"max_body": "1MiB", "trusted": [], "limits": {"head": "1s", "body": "2s"}}));
        let now = shown(json!({
            "max_body": "1MiB", "trusted": ["10.0.0.0/8"], "limits": {"head": "3s", "body": "2s"},
            "tls": {"cert": "c", "key": "k"},
        }));
        let names = ["server.limits.head", "server.tls.cert", "server.tls.key", "server.trusted"];
        assert_eq!(of_settings(&before, &now), names);
        assert_eq!(of_settings(&now, &before), names, "what is gone is another value, too");
        assert_eq!(of_settings(&now, &now), [""; 0]);
        assert_eq!(of_settings(&Map::new(), &Map::new()), [""; 0]);
    }

    #[test]
    fn a_file_is_named_by_its_setting_where_it_or_its_content_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let file = |setting: &str, name: &str, content: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            NamedFile::read(setting.to_owned(), path)
        };
        let before = [file("a", "same", "secret"), file("b", "anew", "secret"), file("c", "moved", "x")];
        let now = [file("a", "same", "secret"), file("b", "anew", "hidden"), file("c", "there", "x")];
        assert_eq!(of_files(&before, &now), ["b (what is in the file)", "c"]);
        assert_eq!(of_files(&before, &now[..1]), ["b", "c"]);
        assert_eq!(of_files(&now[..1], &before), ["b", "c"]);
        assert_eq!(of_files(&now, &now), [""; 0]);
        let debug = format!("{:?}", now[1]);
        assert_eq!(
            debug.matches(char::is_numeric).count(),
            now[1].path.to_string_lossy().matches(char::is_numeric).count(),
            "{debug}"
        );
    }
}
