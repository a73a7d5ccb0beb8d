//! The page that compares the presets with the default: made from the orders themselves.

use std::fmt::Write as _;

use toolgate::{presets::Preset, stack::DEFAULT_ORDER};

/// What each preset is, in its own words.
const INTRODUCTIONS: [(Preset, &str); 3] = [
    (
        Preset::Libtmux,
        "The chain of libtmux-mcp: a response limit that keeps the tail, errors as results, an audit with redacted \
         arguments, retries of readonly calls, three safety tiers.\n\n\
         Set where the file says nothing: `safety = \"mutating\"`, `[retry]` with one repetition after 100 ms, \
         results up to 1,000,000 bytes. A denial says `Tool 'NAME' is not available at the current safety level.` and \
         `Set LIBTMUX_SAFETY=TIER to enable TIER tools.`, with the tier that the tool really needs.\n\n\
         Its document places retry outside safety, so that denied calls are never retried: the order is kept, and a \
         denial is no failure that passes by itself. `[confirm]` needs the default order: with safety inside of \
         retry a person would be asked about calls that are then denied, and the start is refused.",
    ),
    (
        Preset::Metamcp,
        "The chain of MetaMCP: logging, policy, filter, overrides, over listings and calls. `_meta.policyId`, \
         `_meta.allowedTools` and `_meta.parent_call_uuid` mean what its guide says, and only narrow.\n\n\
         Set where the file says nothing: `cache_ttl = \"60s\"`. Denials read `Access denied to tool NAME by policy \
         ID` and `Tool \"NAME\" is currently inactive and disallowed in this namespace`; `inactive_message` is its \
         custom error message. The log needs a `store`, as there.\n\n\
         Overrides stand closest to the tool. Where they also fill in arguments (`defaults`, `hidden`), which they do \
         not in the original, policies have to stand inside of them, and the start is refused: use the default order.",
    ),
    (
        Preset::McpCore,
        "The four layers of mcp-core: telemetry, validate, preconditions (confirm, scopes), audit.\n\n\
         Set where the file says nothing: tools with `destructiveHint`, or without any hint, need both keys; arguments \
         are checked against the published schemas and unknown ones are stripped; the audit goes to stderr, has what \
         really ran, and leaves readonly calls to telemetry. `__confirm: true` is the caller's key, as there; \
         it is lifted off before arguments are checked, so a confirmed call runs. Scopes gate calls and listings. A \
         failing audit never changes a result. A preview is no error in the metrics.\n\n\
         Results of failures have `structuredContent` with `code`, `retriable`, `category`, `message` and \
         `recovery_hint` (in `_meta.error` where the tool publishes an output schema), and a text with \
         `**Recovery**`. `VALIDATION_FAILED`, `DRY_RUN_PREVIEW`, `SCOPE_REJECTED`, `BULKHEAD_FULL` and \
         `INTERNAL_ERROR` are its codes; others are toolgate's. `retriable` is true only where nothing ran.\n\n\
         A fifth layer goes between preconditions and audit, as its document advises; inside of audit only what \
         does not refuse may stand. Not here: its circuit breaker (`MCP_CIRCUIT_*`), and `MCP_CATEGORIES`, which is \
         `MCP_SCOPES`.",
    ),
];

/// The page, as Markdown.
#[must_use]
pub fn presets() -> String {
    let mut page = String::from(
        "# Presets\n\nMade by `toolgate config presets` from the orders themselves.\n\n\
         `chain = \"libtmux\"`, `\"metamcp\"` or `\"mcp-core\"` in a namespace gives the chain of the system of that \
         name: its layer order, its defaults, its environment variables and its error messages. `toolgate chain` \
         prints what comes out. Layers that nothing switches on are left out everywhere.\n\n\
         ## Side by side\n\n",
    );
    side_by_side(&mut page);
    for (preset, introduction) in INTRODUCTIONS {
        let _ = write!(page, "\n## `{preset}`\n\n{introduction}\n");
        if !preset.variables().is_empty() {
            page.push_str("\n| variable | meaning |\n|---|---|\n");
        }
        for (name, meaning) in preset.variables() {
            let _ = writeln!(page, "| `{name}` | {meaning} |");
        }
        page.push_str("\n| layer | why it stands there |\n|---|---|\n");
        for (name, why) in preset.order() {
            let _ = writeln!(page, "| `{name}` | {why} |");
        }
    }
    page
}

/// The place of each layer in each order; bold where the original has the layer.
fn side_by_side(page: &mut String) {
    page.push_str("The places of the layers, outermost first; **bold** where the original has the layer too.\n\n");
    page.push_str("| layer | default |");
    for preset in Preset::ALL {
        let _ = write!(page, " {preset} |");
    }
    page.push_str("\n|---|---|---|---|---|\n");
    for (at, (name, _)) in DEFAULT_ORDER.iter().enumerate() {
        let _ = write!(page, "| `{name}` | {} |", at + 1);
        for preset in Preset::ALL {
            let place = preset.order().iter().position(|(other, _)| other == name);
            let is_own = preset.own_layers().any(|own| own == *name);
            let _ = match place {
                Some(place) if is_own => write!(page, " **{}** |", place + 1),
                Some(place) => write!(page, " {} |", place + 1),
                None => write!(page, " |"),
            };
        }
        page.push('\n');
    }
}
