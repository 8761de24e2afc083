use minijinja::Value;

use super::*;

const TEXT: TemplateTraits = TemplateTraits {
    content_format: ContentFormat::Text,
    sglang_content: ContentFormat::Text,
    knows_developer: false,
};
const PARTS: TemplateTraits = TemplateTraits {
    content_format: ContentFormat::Parts,
    sglang_content: ContentFormat::Parts,
    knows_developer: true,
};

fn list(json: &str) -> Vec<Tree> {
    match Tree::parse(json).unwrap() {
        Tree::List(items) => items,
        other => vec![other],
    }
}

/// The normalised list as Python would print it as JSON.
fn print(items: Vec<Tree>) -> String {
    let mut environment = minijinja::Environment::new();
    crate::python::add_to(&mut environment);
    let value: Value = items.into_iter().map(Value::from).collect();
    environment.render_str("{{ x | tojson }}", minijinja::context! { x => value }).unwrap()
}

fn messages(json: &str, traits: TemplateTraits) -> String {
    print(normalise_messages(list(json), traits).unwrap())
}

fn tools(json: &str) -> String {
    print(normalise_tools(list(json)).unwrap())
}

#[test]
fn members_get_a_fixed_order_and_unknown_ones_go() {
    assert_eq!(
        messages(r#"[{"x":1,"content":"c","name":"bob","role":"user"}]"#, TEXT),
        r#"[{"role": "user", "content": "c", "name": "bob"}]"#
    );
    assert_eq!(
        messages(r#"[{"content":"r","tool_call_id":"c1","role":"tool","tool_calls":[]}]"#, TEXT),
        r#"[{"role": "tool", "content": "r", "tool_call_id": "c1"}]"#
    );
}

#[test]
fn content_becomes_one_text_or_parts_as_the_template_takes_it() {
    let parts = r#"[{"role":"user","content":[{"type":"text","text":"a"},"b",{"type":"text","text":""},{"type":"text","text":null}]}]"#;
    assert_eq!(messages(parts, TEXT), r#"[{"role": "user", "content": "a\nb"}]"#);
    assert_eq!(
        messages(parts, PARTS),
        r#"[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "text", "text": ""}]}]"#
    );
    assert_eq!(
        messages(r#"[{"role":"assistant","content":null}]"#, TEXT),
        r#"[{"role": "assistant", "content": ""}]"#
    );
    assert_eq!(messages(r#"[{"role":"assistant"}]"#, PARTS), r#"[{"role": "assistant", "content": []}]"#);
    // A tool's answer is one text for every template.
    assert_eq!(
        messages(
            r#"[{"role":"tool","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]"#,
            PARTS
        ),
        r#"[{"role": "tool", "content": "a\nb"}]"#
    );
}

#[test]
fn what_is_no_text_is_refused_by_name() {
    let refused = |json| normalise_messages(list(json), TEXT).unwrap_err();
    assert_eq!(
        refused(r#"[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]"#),
        "content of type \"image_url\" is no text, so its tokens cannot be counted"
    );
    assert_eq!(
        refused(r#"[{"role":"user","content":[{"type":"thinking"}]}]"#),
        "a content part of type \"thinking\" has no thinking; send one"
    );
    assert_eq!(refused(r#"[{"role":"assistant","tool_calls":"x"}]"#), "tool_calls is no array; send one");
    assert!(
        refused(r#"[{"role":"assistant","tool_calls":[{"id":"c"}]}]"#).starts_with("a tool call is no {id")
    );
}

/// The engine reads arguments that are nested too deeply for this crate: they are not nothing.
#[test]
fn arguments_that_are_nested_too_deeply_are_refused_and_not_left_out() {
    let arguments = format!("{}1{}", r#"{\"a\":"#.repeat(200), "}".repeat(200));
    let call = format!(r#"{{"type":"function","function":{{"name":"f","arguments":"{arguments}"}}}}"#);
    let messages = format!(r#"[{{"role":"assistant","tool_calls":[{call}]}}]"#);
    let refusal = normalise_messages(list(&messages), TEXT).unwrap_err();
    assert!(refusal.contains("nested deeper than 128 levels"), "{refusal}");
}

#[test]
fn tool_calls_are_typed_and_their_arguments_parsed() {
    let call = |arguments: &str| {
        messages(
            &format!(
                r#"[{{"role":"assistant","tool_calls":[{{"type":"function","x":1,"function":{{"name":"f","arguments":{arguments}}},"id":"c1"}}]}}]"#
            ),
            TEXT,
        )
    };
    let expected = |arguments: &str| {
        format!(
            r#"[{{"role": "assistant", "content": "", "tool_calls": [{{"id": "c1", "function": {{"arguments": {arguments}, "name": "f"}}, "type": "function"}}]}}]"#
        )
    };
    assert_eq!(
        call(r#""{\"q\":\"<b>é\",\"n\":1.50,\"e\":1e3,\"big\":12345678901234567890}""#),
        expected(r#"{"q": "<b>é", "n": 1.5, "e": 1000.0, "big": 12345678901234567890}"#)
    );
    assert_eq!(call(r#"{"a":1}"#), expected(r#"{"a": 1}"#));
    for empty in ["null", "\"\"", "\"not json\"", "\"[1]\"", "7", "[]"] {
        assert_eq!(call(empty), expected("{}"), "{empty}");
    }
    assert_eq!(
        messages(r#"[{"role":"assistant","content":"a","tool_calls":[]}]"#, TEXT),
        r#"[{"role": "assistant", "content": "a"}]"#
    );
}

#[test]
fn reasoning_has_two_names_and_belongs_to_the_assistant() {
    let both = r#"[{"role": "assistant", "content": "a", "reasoning": "r", "reasoning_content": "r"}]"#;
    assert_eq!(messages(r#"[{"role":"assistant","content":"a","reasoning_content":"r"}]"#, TEXT), both);
    assert_eq!(
        messages(r#"[{"role":"assistant","content":"a","reasoning_content":"old","reasoning":"r"}]"#, TEXT),
        both
    );
    assert_eq!(
        messages(r#"[{"role":"user","content":"a","reasoning":"r"}]"#, TEXT),
        r#"[{"role": "user", "content": "a"}]"#
    );
}

#[test]
fn a_developer_becomes_system_where_the_template_does_not_know_him() {
    let chat = r#"[{"role":"system","content":"S"},{"role":"user","content":"u"},{"role":"developer","content":"D"}]"#;
    assert_eq!(
        messages(chat, TEXT),
        r#"[{"role": "system", "content": "S\n\nD"}, {"role": "user", "content": "u"}]"#
    );
    assert_eq!(
        messages(r#"[{"role":"developer","content":"D","tools":[1]}]"#, TEXT),
        r#"[{"role": "system", "content": "D"}]"#
    );
    let knowing = TemplateTraits { knows_developer: true, ..TEXT };
    assert_eq!(
        messages(r#"[{"role":"developer","content":"D"}]"#, knowing),
        r#"[{"role": "developer", "content": "D", "tools": null}]"#
    );
    // Without a developer, system messages stay where they are.
    let two = r#"[{"role": "user", "content": "u"}, {"role": "system", "content": "S"}]"#;
    assert_eq!(messages(two, TEXT), two);
}

#[test]
fn the_billing_line_of_a_coding_client_is_taken_out_of_system_text() {
    let header = "x-anthropic-billing-header: cch=1;";
    let chat = |role: &str| {
        messages(
            &format!(
                r#"[{{"role":"{role}","content":[{{"type":"text","text":"{header}"}},"{header}\nrest"]}}]"#
            ),
            TEXT,
        )
    };
    assert_eq!(chat("system"), r#"[{"role": "system", "content": "rest"}]"#);
    assert!(chat("user").contains("billing"));
}

#[test]
fn tools_are_typed() {
    assert_eq!(
        tools(
            r#"[{"function":{"strict":true,"parameters":{"b":1,"a":2},"name":"f","x":1},"type":"function"}]"#
        ),
        r#"[{"type": "function", "function": {"name": "f", "description": null, "parameters": {"b": 1, "a": 2}, "strict": true}}]"#
    );
    assert_eq!(
        tools(r#"[{"defer_loading":true,"function":{"name":"f","description":"d","strict":null}}]"#),
        r#"[{"type": "function", "function": {"name": "f", "description": "d", "parameters": null, "defer_loading": true}, "defer_loading": true}]"#
    );
    assert!(
        normalise_tools(list("[{\"type\":\"function\"}]")).unwrap_err().starts_with("a tool is no {type")
    );
}
