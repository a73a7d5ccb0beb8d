//! Where a path leads: below a root, to a root, or elsewhere.

use std::path::{Component, Path, PathBuf};

use super::{
    arg::{Arg, HOME, UNKNOWN},
    judge::{Judge, UNKNOWN_FOLDER, WorkingFolder},
};

/// Folders in which any file may be deleted.
pub(super) const TEMPORARY: &[&str] = &["/tmp", "/var/tmp", "/private/tmp", "/dev/shm"];

/// Where a path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathLocation {
    /// Below a root.
    Inside,
    /// A root itself, or everything in it.
    Whole,
    /// Elsewhere.
    Outside,
    /// Only known when the command runs.
    Unknown,
}

impl Judge<'_> {
    /// `cd`
    pub(super) fn change_folder(&mut self, to: Option<&Arg>) {
        let home = Arg { text: HOME.to_string(), ..Arg::default() };
        let to = to.unwrap_or(&home);
        self.folder = match self.full(&to.text) {
            Some(path) if to.is_known() && to.text != "-" => WorkingFolder::Known(path),
            _ => WorkingFolder::Unknown,
        };
    }

    /// The absolute path, without `.` and `..`.
    fn full(&self, text: &str) -> Option<PathBuf> {
        let path = match text.strip_prefix(HOME) {
            Some(rest) => self.place.home().join(rest.trim_start_matches('/')),
            None if text.starts_with('/') => PathBuf::from(text),
            None => match &self.folder {
                WorkingFolder::Known(folder) => folder.join(text),
                WorkingFolder::Unknown => return None,
            },
        };
        let mut full = PathBuf::from("/");
        for part in path.components() {
            match part {
                Component::ParentDir => {
                    full.pop();
                }
                Component::Normal(name) => full.push(name),
                _ => {}
            }
        }
        Some(full)
    }

    /// Where an argument leads.
    pub(super) fn location_of(&mut self, arg: &Arg) -> PathLocation {
        self.judgement.needs_folder = true;
        let relative = !arg.text.starts_with(['/', HOME]);
        if self.context.remote && relative {
            return PathLocation::Outside;
        }
        // Only the text before the first unknown part is resolved; the rest leads below it.
        let (text, below) = match arg.text.find(UNKNOWN) {
            Some(0) => return PathLocation::Unknown,
            // The rest may lead out again.
            Some(at)
                if arg
                    .text
                    .get(at..)
                    .is_some_and(|rest| rest.split('/').any(|part| part == "..")) =>
            {
                return PathLocation::Unknown;
            }
            Some(at) => {
                let known = arg.text.get(..at).unwrap_or_default();
                (
                    known
                        .rsplit_once('/')
                        .map_or(".", |(folder, _)| if folder.is_empty() { "/" } else { folder }),
                    true,
                )
            }
            None => (arg.text.as_str(), false),
        };
        let (text, mut extent) =
            if arg.globs { split_wildcard(text) } else { (text.to_owned(), PathExtent::Itself) };
        if below && extent == PathExtent::Itself {
            extent = PathExtent::Below;
        }
        let Some(path) = self.full(&text) else { return PathLocation::Unknown };
        self.compare(&path, extent)
    }

    /// Describes a path outside of the roots for a message, with the roots.
    pub(super) fn outside(&self) -> String {
        let own = self.place.folder.iter().filter(|folder| may_be_root(folder, &self.place.home()));
        let roots = own.chain(&self.place.roots).map(|root| root.display().to_string());
        let roots = roots.collect::<Vec<_>>().join(" and ");
        match (&self.place.folder, roots.is_empty()) {
            (_, false) => format!("outside {roots}"),
            (Some(folder), true) => {
                format!("in {}, which is no project folder, or outside it", folder.display())
            }
            (None, true) => "outside the pane's folder".to_owned(),
        }
    }

    /// Whether a file is in the pane's own folder, also if that is a home folder, and is no hidden file or folder
    /// there.
    pub(super) fn is_below_pane(&self, arg: &Arg) -> bool {
        let home = self.place.home();
        let folder = self.place.folder.as_ref().filter(|folder| folder.starts_with(&home));
        let path = self.full(&arg.text);
        let Some((folder, path)) = folder.zip(path) else { return false };
        let below = path.strip_prefix(folder).ok();
        let first = below.and_then(|below| below.components().next());
        first.is_some_and(|name| !name.as_os_str().to_string_lossy().starts_with('.'))
    }

    /// Compares a path with the roots.
    fn compare(&self, path: &Path, extent: PathExtent) -> PathLocation {
        let folder = self.place.folder.clone().unwrap_or_else(|| UNKNOWN_FOLDER.into());
        let own = may_be_root(&folder, &self.place.home()).then_some(folder);
        let mut whole = false;
        for root in self.place.roots.iter().chain(own.as_ref()) {
            if path == root {
                whole = true;
                if extent == PathExtent::Below {
                    return PathLocation::Inside;
                }
            } else if path.starts_with(root) {
                return PathLocation::Inside;
            }
        }
        // A home folder is not temporary, even if it is below a temporary folder.
        let home = self.place.home();
        let is_home = path.starts_with(&home) || home.starts_with(path);
        let temporary = !is_home
            && TEMPORARY.iter().any(|root| {
                path.starts_with(root) && (path != Path::new(root) || extent == PathExtent::Below)
            });
        match (whole, temporary) {
            (true, _) => PathLocation::Whole,
            (false, true) => PathLocation::Inside,
            (false, false) => PathLocation::Outside,
        }
    }
}

/// Whether a folder may be a root: it is no home folder, not above one, and not at the top level.
fn may_be_root(folder: &Path, home: &Path) -> bool {
    !home.starts_with(folder) && folder.components().count() > 2
}

/// What an argument means beside the path that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathExtent {
    /// The file or folder itself.
    Itself,
    /// Everything in the folder.
    All,
    /// Something in the folder.
    Below,
}

/// The folder that a wildcard is in, and what the wildcard matches there.
fn split_wildcard(text: &str) -> (String, PathExtent) {
    let mut before: Vec<&str> = Vec::new();
    let mut parts = text.split('/');
    while let Some(part) = parts.next() {
        if part.contains(['*', '?', '[']) {
            let last = parts.all(str::is_empty);
            let all =
                last && part.chars().all(|c| matches!(c, '*' | '.' | '?' | '[' | ']' | '!' | '^'));
            let folder = before.join("/");
            let folder = match (folder.is_empty(), text.starts_with('/')) {
                (true, true) => "/".to_owned(),
                (true, false) => ".".to_owned(),
                _ => folder,
            };
            return (folder, if all { PathExtent::All } else { PathExtent::Below });
        }
        before.push(part);
    }
    (text.to_owned(), PathExtent::Itself)
}
