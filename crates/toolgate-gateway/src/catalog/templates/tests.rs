//! Templates as servers list them, and as nobody should.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn check(template: &str, fitting: &[&str], others: &[&str]) {
    let parsed = Template::parse(template);
    for address in fitting {
        assert!(parsed.matches(address), "{template} does not fit {address}");
    }
    for address in others {
        assert!(!parsed.matches(address), "{template} fits {address}");
    }
}

#[test]
fn a_value_stays_within_its_segment() {
    check(
        "users://{id}/profile",
        &[
            "users://7/profile",
            "users://a%2Fb/profile",
            "users://ä b/profile",
            "users://a,b/profile",
        ],
        &[
            "users:///profile",
            "users://7/8/profile",
            "users://7/profil",
            "users://7/profile/",
            "Users://7/profile",
            "",
        ],
    );
    check(
        "greeting://{name}",
        &["greeting://x", "greeting://x?y"],
        &["greeting://", "greeting://x/y"],
    );
    check("r://{owner}/{repo}", &["r://a/b"], &["r://a", "r://a/b/c"]);
    check("x://{a}-{b}", &["x://1-2", "x://1-2-3", "x://---"], &["x://12", "x://-2", "x://1-"]);
    check("x://{a,b}", &["x://1,2", "x://1"], &["x://1/2"]);
    check("x://{a:3}", &["x://abc"], &["x://"]);
}

#[test]
fn a_reserved_value_may_be_anything() {
    check(
        "file:///{+path}",
        &["file:///a/b.txt", "file:///", "file:///a?b#c"],
        &["file://a", "files:///a"],
    );
    check("f://{+path}/raw", &["f://a/b/raw", "f://raw/raw", "f:///raw"], &["f://a/b", "f://raw"]);
    check("f://{path*}", &["f://a/b/c"], &["f://"]);
    check("x://y{#part}", &["x://y", "x://y#a/b"], &["x://ya"]);
}

#[test]
fn segments_labels_and_parameters_may_be_left_out() {
    check("x://a{/b}", &["x://a", "x://a/1"], &["x://a/1/2", "x://a1"]);
    check("x://a{/b,c}", &["x://a/1/2", "x://a/1", "x://a"], &["x://a/1/2/3"]);
    check("x://a{/b*}/end", &["x://a/1/2/3/end", "x://a/end"], &["x://a/1"]);
    check("x://a{.type}", &["x://a", "x://a.json", "x://a.tar.gz"], &["x://ajson", "x://a.b/c"]);
    check("x://a{;p,q}", &["x://a", "x://a;p=1;q", "x://a;q=2"], &["x://a;r=1", "x://a;p=1/2"]);
}

#[test]
fn a_query_has_the_names_of_the_template() {
    check(
        "s://find{?q,limit}",
        &[
            "s://find",
            "s://find?q=a b/c",
            "s://find?q=1&limit=2",
            "s://find?limit=2&q=1",
            "s://find?q",
            "s://find?q=",
        ],
        &[
            "s://find?",
            "s://find?other=1",
            "s://find?q=1&other=2",
            "s://find?qq=1",
            "s://find?q=1#x",
            "s://find?q=1&",
            "s://findq=1",
        ],
    );
    check(
        "s://find?x=1{&q}",
        &["s://find?x=1", "s://find?x=1&q=2"],
        &["s://find?x=1&r=2", "s://find?x=2"],
    );
    check("s://find{?any*}", &["s://find?a=1&b=2", "s://find"], &["s://find#x", "s://found?a=1"]);
    check("s://{id}{?q}", &["s://7?q=1", "s://7"], &["s://7/8?q=1"]);
}

#[test]
fn what_is_no_template_is_taken_to_the_letter() {
    for odd in [
        "x://{",
        "x://}",
        "x://{a",
        "x://a}",
        "x://{}",
        "x://{a b}",
        "x://{=a}",
        "x://{a,}",
        "x://{a:}",
        "x://{a:x}",
        "x://{{a}}",
        "x://{+}",
        "x://{ä}",
        "",
    ] {
        check(odd, &[odd], &["x://a", "x://1", "x:// "]);
    }
    let long = format!("x://{}{{a}}", "y".repeat(MAX_TEMPLATE_LENGTH));
    check(&long, &[&long], &[&long.replace("{a}", "1")]);
    check("x://plain", &["x://plain"], &["x://plain/", "x://plai", "x://plain{a}"]);
}

#[test]
fn neither_templates_nor_addresses_can_make_it_slow() {
    let address = format!("x://{}", "a".repeat(MAX_URI_LENGTH / 8));
    let begun = Instant::now();
    for template in [
        format!("x://{}b", "{+a}".repeat(200)),
        format!("x://{}b", "{+a}aaaa".repeat(100)),
        format!("x://{}b", "{a}".repeat(300)),
        format!("x://{}b", "{/a*}{+b}".repeat(80)),
        format!("x://{}b", "{?aaaa*}{+b}".repeat(80)),
        format!("x://{{?{}a}}b", "a,".repeat(400)),
        format!("x://{{+p}}{{;{}a}}b", "a,".repeat(400)),
    ] {
        let template = Template::parse(&template);
        assert!(!template.matches(&address));
    }
    // Seconds without optimization; exponential time would not end at all.
    assert!(begun.elapsed() < Duration::from_mins(1));
    assert!(!Template::parse("x://{+a}").matches(&"x://".repeat(MAX_URI_LENGTH)));
}

proptest! {
    #[test]
    fn what_is_made_from_a_template_fits_it(
        parts in prop::collection::vec(("[a-z/:.]{0,4}", "[a-z0-9%_ ä]{1,5}", 0..6_usize), 0..6),
    ) {
        let (mut template, mut address) = (String::new(), String::new());
        for (literal, value, form) in &parts {
            let (expression, expanded) = match form {
                0 => ("{v}", value.clone()),
                1 => ("{+v}", format!("{value}/{value}")),
                2 => ("{/v}", format!("/{value}")),
                3 => ("{?v,w}", format!("?w={value}&v={value}")),
                4 => ("{.v}", format!(".{value}")),
                _ => ("{#v}", String::new()),
            };
            template.extend([literal.as_str(), expression]);
            address.extend([literal.as_str(), &expanded]);
        }
        prop_assert!(Template::parse(&template).matches(&address), "{} {}", template, address);
        let other = format!("\u{1}{address}");
        let starts_plain = parts.first().is_some_and(|(literal, ..)| !literal.is_empty());
        prop_assert!(!starts_plain || !Template::parse(&template).matches(&other));
    }

    #[test]
    fn any_text_can_be_read(template in ".{0,40}", address in ".{0,40}") {
        let parsed = Template::parse(&template);
        let _either = parsed.matches(&address);
        if !template.contains('{') {
            prop_assert!(parsed.matches(&template));
            prop_assert_eq!(parsed.matches(&address), template == address);
        }
    }
}
