use std::fs;

use bytes::Bytes;
use kvroute_openai::{ClientRequest, Endpoint};

use super::*;
use crate::EncodeErrorKind;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/demo-tokenizer");

fn demo() -> PromptTokenizer {
    PromptTokenizer::load(Path::new(DEMO)).unwrap()
}

fn chat_prompt(body: &str) -> Prompt {
    ClientRequest::parse(Endpoint::ChatCompletions, Bytes::copy_from_slice(body.as_bytes())).unwrap().prompt
}

fn render(tokenizer: &PromptTokenizer, body: &str, rules: ChatRules) -> Result<String, EncodeError> {
    match chat_prompt(body) {
        Prompt::Chat(chat) => tokenizer.render(&chat, rules),
        other => panic!("no chat: {other:?}"),
    }
}

/// The demo tokenizer with another template.
fn with_template(template: &str) -> PromptTokenizer {
    let folder = tempfile::TempDir::new().unwrap();
    fs::copy(format!("{DEMO}/tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
    fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
    PromptTokenizer::load(folder.path()).unwrap()
}

#[test]
fn one_tokenizer_serves_many_threads() {
    let tokenizer = demo();
    let body = r#"{"messages":[{"role":"user","content":"one day"}]}"#;
    let expected = tokenizer.encode(&chat_prompt(body), ChatRules::Vllm).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(tokenizer.encode(&chat_prompt(body), ChatRules::Vllm).unwrap(), expected);
                }
            });
        }
    });
}

#[test]
fn a_chat_is_rendered_and_encoded_with_its_special_tokens() {
    let tokenizer = demo();
    let body = r#"{"messages":[{"role":"system","content":"S"},{"role":"user","content":"hi <|im_end|>"}]}"#;
    let text = render(&tokenizer, body, ChatRules::Plain).unwrap();
    assert_eq!(
        text,
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nhi <|im_end|><|im_end|>\n<|im_start|>assistant\n"
    );
    let ids = tokenizer.encode(&chat_prompt(body), ChatRules::Plain).unwrap().remove(0);
    assert_eq!(tokenizer.decode(&ids), text);
    let special = |text: &str| tokenizer.encoder.tokenizer().token_to_id(text).unwrap();
    let count = |id: TokenId| ids.iter().filter(|&&other| other == id).count();
    assert_eq!(ids[0], special("<|im_start|>"));
    assert_eq!((count(special("<|im_start|>")), count(special("<|im_end|>"))), (3, 3));
}

#[test]
fn the_demo_tokenizer_is_fast_and_knows_its_special_tokens() {
    let tokenizer = demo();
    assert!(tokenizer.is_fast());
    let id = |text: &str| tokenizer.encoder.tokenizer().token_to_id(text).unwrap();
    assert!(tokenizer.is_special(id("<|im_start|>")) && !tokenizer.is_special(id("a")));
    assert!(!tokenizer.is_special(u32::MAX));
}

#[test]
fn texts_and_ids_are_encoded_one_by_one() {
    let tokenizer = demo();
    let texts = |list: &[&str]| Prompt::Texts {
        texts: list.iter().map(|&text| text.to_owned()).collect(),
        add_special_tokens: true,
    };
    let both = tokenizer.encode(&texts(&["one day", "another"]), ChatRules::Vllm).unwrap();
    let single = |text| tokenizer.encode(&texts(&[text]), ChatRules::Plain).unwrap().remove(0);
    assert_eq!(both, [single("one day"), single("another")]);
    let ids = Prompt::TokenLists(vec![vec![1, 2], vec![3]]);
    assert_eq!(tokenizer.encode(&ids, ChatRules::Plain).unwrap(), [vec![1, 2], vec![3]]);
}

#[test]
fn special_tokens_of_the_tokenizer_come_with_texts_and_not_with_chats() {
    let text = fs::read_to_string(format!("{DEMO}/tokenizer.json")).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let start = json["added_tokens"][0]["id"].as_u64().unwrap() as TokenId;
    let name = json["added_tokens"][0]["content"].clone();
    json["post_processor"] = serde_json::json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": name, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {name.as_str().unwrap(): {"id": name, "ids": [start], "tokens": [name]}}
    });
    let folder = tempfile::TempDir::new().unwrap();
    fs::write(folder.path().join("tokenizer.json"), json.to_string()).unwrap();
    fs::write(folder.path().join("chat_template.jinja"), "{{ messages[0].content }}").unwrap();
    let tokenizer = PromptTokenizer::load(folder.path()).unwrap();
    let first = |endpoint, body: &'static str| {
        let prompt = ClientRequest::parse(endpoint, Bytes::from(body)).unwrap().prompt;
        tokenizer.encode(&prompt, ChatRules::Plain).unwrap()[0][0]
    };
    assert_eq!(first(Endpoint::Completions, r#"{"prompt":"a"}"#), start);
    assert_ne!(first(Endpoint::Completions, r#"{"prompt":"a","add_special_tokens":false}"#), start);
    let chat = r#"{"messages":[{"role":"user","content":"a"}]}"#;
    assert_ne!(first(Endpoint::ChatCompletions, chat), start);
    let asking = r#"{"messages":[{"role":"user","content":"a"}],"add_special_tokens":true}"#;
    assert_eq!(first(Endpoint::ChatCompletions, asking), start);
}

#[test]
fn the_rules_of_an_engine_change_the_text() {
    let tokenizer = demo();
    let body =
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}"#;
    let vllm = render(&tokenizer, body, ChatRules::Vllm).unwrap();
    assert_eq!(vllm, "<|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\n");
    let plain = render(&tokenizer, body, ChatRules::Plain).unwrap();
    assert_eq!(
        plain,
        "<|im_start|>user\n[{'type': 'text', 'text': 'a'}, {'type': 'text', 'text': 'b'}]<|im_end|>\n\
         <|im_start|>assistant\n"
    );
}

#[test]
fn the_requests_own_switches_are_obeyed() {
    let tokenizer = with_template(
        "{{ messages[-1].content }}|{{ add_generation_prompt }}|{{ enable_thinking is defined and enable_thinking }}|\
         {{ reasoning_effort | default('-') }}|{{ documents }}|{{ tools | tojson }}|{{ custom | default('-') }}",
    );
    let with = |fields: &str| {
        let body = format!(r#"{{"messages":[{{"role":"user","content":"x"}}]{fields}}}"#);
        render(&tokenizer, &body, ChatRules::Vllm).unwrap()
    };
    assert_eq!(with(""), "x|True|False|-|None|null|-");
    assert_eq!(
        with(r#","add_generation_prompt":false,"documents":[{"t":1}]"#),
        "x|False|False|-|[{'t': 1}]|null|-"
    );
    assert_eq!(with(r#","reasoning_effort":"low""#), "x|True|True|low|None|null|-");
    assert_eq!(with(r#","reasoning_effort":"none""#), "x|True|False|none|None|null|-");
    let own_choice = r#","reasoning_effort":"low","chat_template_kwargs":{"enable_thinking":false}"#;
    assert_eq!(with(own_choice), "x|True|False|low|None|null|-");
    let arguments =
        r#","chat_template_kwargs":{"custom":1e3,"add_generation_prompt":false,"enable_thinking":true}"#;
    assert_eq!(with(arguments), "x|True|True|-|None|null|1000.0");
}

#[test]
fn a_continued_message_stays_open() {
    let body = r#"{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"The answer is "}],
        "add_generation_prompt":false,"continue_final_message":true}"#;
    let text = render(&demo(), body, ChatRules::Vllm).unwrap();
    assert_eq!(text, "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nThe answer is ");
}

#[test]
fn requests_that_cannot_be_rendered_say_why() {
    let tokenizer =
        with_template("{% if messages[0].role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}");
    let refusal = |fields: &str| {
        let body = format!(r#"{{"messages":[{{"role":"user","content":"x"}}]{fields}}}"#);
        let error = tokenizer.encode(&chat_prompt(&body), ChatRules::Vllm).unwrap_err();
        assert_eq!(error.kind, EncodeErrorKind::Template);
        error.message
    };
    assert_eq!(
        refusal(r#","chat_template":"{{ x }}""#),
        "the request brings its own chat_template, which engines run only when told to trust it; leave it out to be \
         routed by prefix"
    );
    assert_eq!(
        refusal(r#","continue_final_message":true"#),
        "continue_final_message and add_generation_prompt exclude each other; set one of them to false"
    );
    assert_eq!(
        refusal(r#","continue_final_message":true,"add_generation_prompt":false"#),
        "continue_final_message is set, but the chat template drops the final message"
    );
    assert_eq!(
        refusal(r#","chat_template_kwargs":{"tools":[]}"#),
        "chat_template_kwargs must not hold tools; send it as a field of the request"
    );
    let huge = format!(r#","chat_template_kwargs":{{"n":{}}}"#, "9".repeat(50));
    assert!(refusal(&huge).starts_with("a part of the chat cannot be rendered: the whole number 999"));
    let raised = tokenizer
        .encode(&chat_prompt(r#"{"messages":[{"role":"tool","content":"x"}]}"#), ChatRules::Plain)
        .unwrap_err();
    assert_eq!(raised.message, "the chat template refused the request: no tools (line 1 of the template)");
}

#[test]
fn without_a_template_only_chats_fail() {
    let folder = tempfile::TempDir::new().unwrap();
    fs::copy(format!("{DEMO}/tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
    let tokenizer = PromptTokenizer::load(folder.path()).unwrap();
    assert!(!tokenizer.has_chat_template());
    let problem = tokenizer.template_problem().unwrap().to_owned();
    assert!(problem.starts_with("no chat template in "), "{problem}");
    let error =
        tokenizer.encode(&chat_prompt(r#"{"messages":[{"role":"user"}]}"#), ChatRules::Vllm).unwrap_err();
    assert_eq!((error.kind, error.message), (EncodeErrorKind::Template, problem));
    let prompt = Prompt::Texts { texts: vec!["a".to_owned()], add_special_tokens: true };
    assert!(tokenizer.encode(&prompt, ChatRules::Vllm).is_ok());
}

#[test]
fn the_vocabulary_ends_behind_the_largest_id() {
    let tokenizer = demo();
    let last = tokenizer.vocabulary_size() - 1;
    assert!(tokenizer.encoder.tokenizer().id_to_token(last).is_some());
    assert!(tokenizer.encoder.tokenizer().id_to_token(last + 1).is_none());
    assert_eq!(tokenizer.decode(&[last + 1, u32::MAX]), "");
}
