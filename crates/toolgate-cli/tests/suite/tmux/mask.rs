//! `--mask`: secrets on a real screen, whole and broken by its width.

use serde_json::json;

use crate::harness::tmux::{Tmux, structured};

#[test]
fn secrets_on_a_screen_are_masked_also_where_it_breaks_them() {
    let tmux = Tmux::start();
    let token = format!("ghp_{}", "a1B2".repeat(9));
    // The first fits into a row of 120, the second is broken at every place of its own.
    let broken = [76, 90, 110, 117].map(|spaces| format!("printf '%{spaces}s%s\\n' '' {token}"));
    let print = format!("clear; echo short {token}; {}; echo done", broken.join("; "));
    let screen = |tmux: &Tmux| tmux.run(&["capture-pane", "-p"]);
    let shown = |options: &[&str]| {
        let mut session = tmux.serve(options);
        let captured = session.call("capture_pane", json!({"pane_id": "%0"}));
        structured(&captured)["result"].as_str().map(str::to_owned).unwrap_or_default()
    };
    tmux.run(&["send-keys", "-t", "%0", &print, "Enter"]);
    tmux.until("done", |tmux| screen(tmux).lines().any(|line| line == "done"));
    let plain = shown(&[]);
    assert_eq!(plain.replace('\n', "").matches(&token).count(), 5, "{plain}");
    let masked = shown(&["--mask"]);
    assert!(!masked.contains("a1B2a1B2"), "{masked}");
    assert_eq!(masked.replace('\n', "").matches("[redacted: github-token]").count(), 5, "{masked}");
    assert_eq!(masked.lines().count(), plain.lines().count(), "rows stay rows");
}
