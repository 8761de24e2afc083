use bytes::Bytes;
use kvroute_openai::{ClientRequest, Endpoint, Prompt};

use super::*;

/// Shows everything that a template gets.
const ALL: &str = "{{ messages | tojson }}|{{ tools | tojson }}|{{ documents | tojson }}|{{ add_generation_prompt }}|{{ thinking | default('-') }}|\
                   {{ enable_thinking | default('-') }}|{{ reasoning_effort | default('-') }}";

fn templates(source: &str) -> ChatTemplates {
    ChatTemplates::compile([("default".to_owned(), source.to_owned())].into(), Vec::new()).unwrap()
}

fn rendered(source: &str, body: &str) -> Result<Rendered, String> {
    let request = ClientRequest::parse(Endpoint::ChatCompletions, Bytes::copy_from_slice(body.as_bytes()));
    let Prompt::Chat(chat) = request.unwrap().prompt else { panic!("no chat: {body}") };
    render(&templates(source), &chat)
}

/// One of the parts that [`ALL`] shows.
fn part(index: usize, body: &str) -> String {
    let text = rendered(ALL, body).unwrap().text;
    text.split('|').nth(index).unwrap().to_owned()
}

fn messages(json: &str) -> String {
    part(0, &format!(r#"{{"messages":{json}}}"#))
}

fn with_user(fields: &str) -> String {
    format!(r#"{{"messages":[{{"role":"user","content":"u"}}]{fields}}}"#)
}

fn refusal(json: &str) -> String {
    rendered(ALL, &format!(r#"{{"messages":{json}}}"#)).unwrap_err()
}

#[test]
fn a_user_has_a_role_and_content_and_nothing_else() {
    assert_eq!(
        messages(r#"[{"name":"bob","content":"c","x":1,"role":"user"}]"#),
        r#"[{"role": "user", "content": "c"}]"#
    );
    assert_eq!(refusal(r#"[{"role":"user"}]"#), "a user's message has no content; send one");
}

#[test]
fn others_keep_what_the_model_knows_in_its_order() {
    let chat = r#"[{"content":null,"tool_calls":[{"function":{"arguments":"{\"n\":1.50,\"b\":123456789012345678901}","name":"f"}}],
        "reasoning_content":"r","reasoning":"no","role":"ASSISTANT"},
        {"name":"n","content":"t","tool_call_id":"c1","role":"tool"},{"role":"developer","content":"d"}]"#;
    assert_eq!(
        messages(chat),
        r#"[{"role": "assistant", "content": "", "reasoning_content": "r", "tool_calls": [{"id": null, "index": null, "type": "function", "function": {"name": "f", "arguments": {"n": 1.5, "b": 1.2345678901234568e+20}}}]}, {"role": "tool", "content": "t", "tool_call_id": "c1", "name": "n"}, {"role": "developer", "content": "d"}]"#
    );
    assert_eq!(
        refusal(r#"[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"[]"}}]}]"#),
        "function.arguments of an assistant's call is no JSON object; send one"
    );
    assert!(refusal(r#"[{"role":"guest","content":"c"}]"#).starts_with("no role is named \"guest\""));
}

#[test]
fn texts_are_joined_by_blanks_where_the_template_prints_content() {
    let parts = r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#;
    let chat = format!(r#"[{{"role":"user","content":{parts}}},{{"role":"tool","content":{parts}}}]"#);
    assert_eq!(
        messages(&chat),
        r#"[{"role": "user", "content": "a b"}, {"role": "tool", "content": "a b"}]"#
    );
    let taking_parts = format!(
        "{{% for message in messages %}}{{% for p in message.content %}}{{% endfor %}}{{% endfor %}}{ALL}"
    );
    let body = format!(r#"{{"messages":{chat}}}"#);
    let text = rendered(&taking_parts, &body).unwrap().text;
    assert!(
        text.starts_with(
            r#"[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, {"role": "tool", "content": "a b"}]"#
        ),
        "{text}"
    );
}

#[test]
fn thoughts_are_no_parts_for_a_template_and_belong_to_the_assistant() {
    let thought = |role: &str| {
        format!(
            r#"[{{"role":"{role}","content":[{{"type":"thinking","thinking":"t"}},{{"type":"text","text":"a"}}]}},{{"role":"user","content":"u"}}]"#
        )
    };
    assert!(messages(&thought("assistant")).starts_with(r#"[{"role": "assistant", "content": "a"}"#));
    assert!(refusal(&thought("system")).starts_with("only an assistant's content has thoughts"));
    assert!(refusal(r#"[{"role":"user","content":["a"]}]"#).starts_with("a content part is no object"));
}

#[test]
fn a_final_turn_of_the_assistant_is_continued_or_becomes_a_users() {
    let chat =
        r#"[{"role":"user","content":"u"},{"role":"assistant","content":"a ","reasoning_content":"r"}]"#;
    assert_eq!(messages(chat), r#"[{"role": "user", "content": "u"}, {"role": "user", "content": "a "}]"#);
    let body = format!(
        r#"{{"messages":{chat},"continue_final_message":true,"add_generation_prompt":false,"documents":[{{"t":1}}]}}"#
    );
    let continued = rendered(ALL, &body).unwrap();
    assert!(
        continued.text.starts_with(r#"[{"role": "user", "content": "u"}]|null|null|True|"#),
        "{}",
        continued.text
    );
    assert_eq!(continued.continued.as_deref(), Some("a "));
}

#[test]
fn tools_keep_the_clients_order_and_say_what_is_absent() {
    let tools = r#","tools":[{"function":{"strict":true,"x":1,"name":"f"},"type":"function"},{"defer_loading":true,"function":{"parameters":{},"strict":null,"name":"g"}}]"#;
    assert_eq!(
        part(1, &with_user(tools)),
        r#"[{"type": "function", "function": {"strict": true, "name": "f", "description": null, "parameters": null}, "defer_loading": null}, {"type": "function", "function": {"parameters": {}, "name": "g", "description": null, "defer_loading": true}, "defer_loading": true}]"#
    );
}

#[test]
fn the_choice_of_a_tool_hides_the_others() {
    let tools = r#","tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]"#;
    let names = |choice: &str| {
        let shown = part(1, &with_user(&format!("{tools},\"tool_choice\":{choice}")));
        ["\"f\"", "\"g\""].map(|name| shown.contains(name))
    };
    assert_eq!(names("null"), [true, true]);
    assert_eq!(names("\"auto\""), [true, true]);
    assert_eq!(names("\"required\""), [true, true]);
    assert_eq!(names("\"none\""), [false, false]);
    assert_eq!(names(r#"{"type":"function","function":{"name":"g"}}"#), [false, true]);
    assert_eq!(names(r#"{"type":"function","function":{"name":"h"}}"#), [false, false]);
}

#[test]
fn names_of_types_that_databases_have_become_standard_ones() {
    let schema = |kind: &str| format!(r#"{{"type":{kind}}}"#);
    let tool = |parameters: &str| {
        let tools = format!(
            r#","tools":[{{"type":"function","function":{{"parameters":{parameters},"name":"f"}}}}]"#
        );
        let shown = part(1, &with_user(&tools));
        let (_, behind) = shown.split_once(r#""parameters": "#).unwrap();
        behind.split_once(r#", "name""#).unwrap().0.replace(' ', "")
    };
    for (written, standard) in [
        ("string", "string"),
        ("VARCHAR(255)", "string"),
        ("bool", "boolean"),
        ("int32", "integer"),
        ("internal", "internal"),
        ("float", "number"),
        ("decimal(10,2)", "number"),
        ("list[str]", "array"),
        ("list_price", "list_price"),
        ("map", "object"),
        ("dict", "object"),
        ("Object", "object"),
        ("what", "what"),
    ] {
        assert_eq!(tool(&schema(&format!("{written:?}"))), schema(&format!("{standard:?}")), "{written}");
    }
    assert_eq!(tool(&schema(r#"["str","string","null"]"#)), schema(r#"["string","null"]"#));
    for inner in [r#"{"properties":{"type":S}}"#, r#"{"anyOf":[S]}"#, r#"{"items":S}"#, r#"{"items":[S]}"#] {
        let with = |kind: &str| inner.replace('S', &schema(&format!("{kind:?}")));
        assert_eq!(tool(&with("int")), with("integer"), "{inner}");
    }
    assert_eq!(tool(r#"{"default":{"type":"int"}}"#), r#"{"default":{"type":"int"}}"#);
}

#[test]
fn a_template_that_fails_on_tools_gets_them_without_their_wrapper() {
    let source = "{% for t in tools %}{{ t.name if t.name else raise_exception('no name') }};{% endfor %}";
    let tools = r#","tools":[{"type":"function","function":{"name":"f"}}]"#;
    assert_eq!(rendered(source, &with_user(tools)).unwrap().text, "f;");
    let failing = "{{ raise_exception('never') }}";
    assert!(rendered(failing, &with_user(tools)).unwrap_err().contains("never"));
}

#[test]
fn the_effort_is_told_in_two_dialects_and_switches_thinking() {
    let switches = |fields: &str| {
        let body = with_user(fields);
        [4, 5, 6].map(|index| part(index, &body)).join(" ")
    };
    assert_eq!(switches(""), "- - -");
    assert_eq!(switches(r#","reasoning_effort":"low""#), "True True low");
    assert_eq!(switches(r#","reasoning_effort":"none""#), "False False none");
    assert_eq!(switches(r#","reasoning":{"effort":"high"},"reasoning_effort":"low""#), "True True high");
    assert_eq!(switches(r#","reasoning":{"effort":0.5}"#), "True True 0.5");
    assert_eq!(switches(r#","reasoning":{"enabled":"yes"}"#), "True True -");
    assert_eq!(switches(r#","reasoning":{"enabled":false}"#), "- - -");
    let own = r#","reasoning_effort":"low","chat_template_kwargs":{"enable_thinking":false,"reasoning_effort":"max"}"#;
    assert_eq!(switches(own), "True False max");
    let documents = r#","chat_template_kwargs":{"documents":[{"t":1}]}"#;
    assert_eq!(part(2, &with_user(documents)), r#"[{"t": 1}]"#);
    let error = rendered(ALL, &with_user(r#","chat_template_kwargs":{"tools":null}"#)).unwrap_err();
    assert_eq!(error, "chat_template_kwargs must not hold tools; send it as a field of the request");
}
