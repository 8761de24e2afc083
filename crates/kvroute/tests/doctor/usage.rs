//! Wrong usage ends with 2 before anybody is asked.

use crate::command::doctor;

#[tokio::test]
async fn wrong_usage_ends_with_2_and_names_what_is_wrong() {
    for (arguments, named) in [
        (vec![], "URL"),
        (vec!["10.0.0.1:8000"], "http://HOST:PORT"),
        (vec!["https://a"], "http://HOST:PORT"),
        (vec!["http://127.0.0.1:1", "--tokenizer", "/absent"], "/absent"),
        (vec!["--config", "/absent.toml"], "/absent.toml"),
    ] {
        let output = doctor(&arguments).await;
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.starts_with("error: ") && message.contains(named), "{arguments:?}: {message}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}
