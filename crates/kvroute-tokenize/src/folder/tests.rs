use std::fs;

use tempfile::TempDir;

use super::*;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/demo-tokenizer/tokenizer.json");

/// A model folder with a working tokenizer and these further files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::copy(DEMO, folder.path().join(TOKENIZER)).unwrap();
    for (name, text) in files {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    folder
}

fn problem(path: &Path) -> String {
    match load(path) {
        Ok(_) => panic!("{} was loaded", path.display()),
        Err(error) => error.to_string(),
    }
}

fn template_problem(files: &[(&str, &str)]) -> (TempDir, String) {
    let folder = folder(files);
    let problem = load(folder.path()).unwrap().templates.unwrap_err();
    (folder, problem)
}

fn chosen(files: &[(&str, &str)], has_tools: bool) -> String {
    let templates = load(folder(files).path()).unwrap().templates.unwrap();
    let name = templates.choose(has_tools).unwrap().0.to_owned();
    let nothing = minijinja::Value::from(());
    let input = crate::template::TemplateInput {
        messages: nothing.clone(),
        tools: nothing.clone(),
        documents: nothing,
        add_generation_prompt: false,
        arguments: Vec::new(),
    };
    templates.render(&name, input).unwrap()
}

#[test]
fn what_is_missing_is_named_with_the_remedy() {
    let empty = TempDir::new().unwrap();
    let path = empty.path().display().to_string();
    assert_eq!(
        problem(empty.path()),
        format!(
            "tokenizer {path}: the folder has no tokenizer.json; give a model folder with a tokenizer.json, or the \
             path of a tokenizer.json"
        )
    );
    assert_eq!(
        problem(&empty.path().join("nowhere")),
        format!(
            "tokenizer {path}/nowhere: there is no such file or folder; give a model folder with a tokenizer.json, \
             or the path of a tokenizer.json"
        )
    );
}

#[test]
fn files_that_are_no_tokenizer_are_named() {
    for broken in ["", "{\"version\":", "{\"model\":{}}", "[]", "\u{0}\u{1}"] {
        let folder = folder(&[(TOKENIZER, broken)]);
        let message = problem(folder.path());
        let expected = format!("tokenizer {}/tokenizer.json: is no tokenizer: ", folder.path().display());
        assert!(message.starts_with(&expected), "{message}");
    }
    let broken_config = folder(&[(CONFIG, "{\"chat_template\": ")]);
    assert_eq!(
        problem(broken_config.path()),
        format!(
            "tokenizer {}/tokenizer_config.json: is no JSON: unexpected end, expected a value at line 1 column 19; \
             repair the file or remove it",
            broken_config.path().display()
        )
    );
    let broken_json = folder(&[(JSON_TEMPLATE, "[]")]);
    assert!(problem(broken_json.path()).contains("chat_template.json: is no JSON object; repair"));
    let odd = folder(&[(CONFIG, "{\"chat_template\": 7}")]);
    assert!(problem(odd.path()).contains("has a chat_template that is neither text nor a list"));
    let odd_list = folder(&[(CONFIG, "{\"chat_template\": [{\"name\": \"default\"}]}")]);
    assert!(problem(odd_list.path()).contains("elements are not all {name, template}"));
    let unreadable = folder(&[]);
    fs::write(unreadable.path().join(TEMPLATE), b"\xff").unwrap();
    assert!(problem(unreadable.path()).contains("chat_template.jinja: cannot be read: "));
}

#[test]
fn a_folder_without_a_template_says_what_was_looked_for() {
    for files in [&[][..], &[(CONFIG, "{}")], &[(CONFIG, "{\"chat_template\": \"\"}")]] {
        let (folder, problem) = template_problem(files);
        assert_eq!(
            problem,
            format!(
                "no chat template in {}: neither chat_template.jinja nor chat_template.json nor chat_template in \
                 tokenizer_config.json; add one of them to have chats routed by prefix",
                folder.path().display()
            )
        );
    }
}

#[test]
fn a_broken_template_leaves_the_tokenizer_usable() {
    let (folder, problem) = template_problem(&[(TEMPLATE, "{% if %}")]);
    assert!(problem.starts_with("chat template \"default\" does not compile: "), "{problem}");
    assert!(problem.ends_with(&format!("; in {}", folder.path().display())), "{problem}");
}

#[test]
fn templates_come_from_every_place_where_models_keep_them() {
    let config = (CONFIG, "{\"chat_template\": \"from config\"}");
    assert_eq!(chosen(&[config], false), "from config");
    assert_eq!(chosen(&[config, (TEMPLATE, "from file")], false), "from file");
    let json = (JSON_TEMPLATE, "{\"chat_template\": \"from json\"}");
    assert_eq!(chosen(&[config, json], false), "from json");
    assert_eq!(chosen(&[json, (TEMPLATE, "from file")], false), "from file");
    let list = "{\"chat_template\": [{\"name\":\"default\",\"template\":\"d\"},{\"name\":\"tool_use\",\"template\":\"t\"}]}";
    assert_eq!(chosen(&[(CONFIG, list)], false), "d");
    assert_eq!(chosen(&[(CONFIG, list)], true), "t");
    let named = ("additional_chat_templates/tool_use.jinja", "named");
    assert_eq!(chosen(&[config, named], true), "named");
    assert_eq!(chosen(&[config, named], false), "from config");
}

#[test]
fn special_tokens_are_texts_objects_or_absent() {
    let config = r#"{"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "</s>", "pad_token": null,
        "additional_special_tokens": ["<x>", {"content": "<y>"}], "extra_special_tokens": {"image_token": "<i>"}}"#;
    let template = "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}{{ additional_special_tokens }}{{ image_token }}";
    assert_eq!(chosen(&[(CONFIG, config), (TEMPLATE, template)], false), "<s></s>False['<x>', '<y>']<i>");
}

#[test]
fn the_path_of_a_tokenizer_file_stands_for_its_folder() {
    let folder = folder(&[(TEMPLATE, "x")]);
    assert!(load(&folder.path().join(TOKENIZER)).unwrap().templates.is_ok());
}

#[test]
fn truncation_and_padding_of_a_training_run_are_dropped() {
    let text = fs::read_to_string(DEMO).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["truncation"] =
        serde_json::json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
    json["padding"] = serde_json::json!({
        "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "!"
    });
    let folder = folder(&[(TOKENIZER, &json.to_string())]);
    let plain = tokenizers::Tokenizer::from_file(DEMO).unwrap();
    let expected = plain.encode("one two three four", false).unwrap();
    assert!(expected.len() > 2);
    let found = load(folder.path()).unwrap().tokenizer.encode("one two three four", false).unwrap();
    assert_eq!(found.get_ids(), expected.get_ids());
}

#[test]
fn a_tokenizer_whose_texts_are_the_librarys_work_keeps_its_model() {
    let text = fs::read_to_string(DEMO).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let model = |json: &serde_json::Value| {
        let folder = folder(&[(TOKENIZER, &json.to_string())]);
        load(folder.path()).unwrap().tokenizer
    };
    assert!(matches!(model(&json).get_model(), Model::Pairs(_)));
    json["pre_tokenizer"] = serde_json::json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true
    });
    let tokenizer = model(&json);
    assert!(matches!(tokenizer.get_model(), Model::Library(_)));
    let expected =
        json.to_string().parse::<tokenizers::Tokenizer>().unwrap().encode("one day's", false).unwrap();
    assert_eq!(tokenizer.encode("one day's", false).unwrap().get_ids(), expected.get_ids());
}
