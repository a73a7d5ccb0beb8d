//! Commands that write to a disk directly, without its file system.

use super::ProgramCall;
use crate::commands::{Class, arg::UNKNOWN, judge::Judge};

pub(super) const WHY: &str = "it writes to a disk past its file system";

pub(super) fn check(judge: &mut Judge<'_>, call: &ProgramCall<'_>) {
    let words = call.words();
    let looks = call.has("l", &["list", "help", "version", "print", "dump"]);
    let writes = match (call.name, words.as_slice()) {
        ("dd", words) => words.iter().any(|word| word.strip_prefix("of=").is_some_and(is_raw)),
        (
            "mke2fs" | "mkswap" | "newfs" | "blkdiscard" | "mkdosfs" | "mkntfs" | "pvcreate"
            | "cfdisk",
            _,
        ) => !looks,
        ("fdisk" | "gdisk" | "sgdisk" | "sfdisk", words) => {
            !looks && !call.has("pdV", &[]) && !words.is_empty()
        }
        ("parted", words) => !looks && !words.contains(&"print"),
        ("wipefs", _) => call.has("ao", &["all", "offset"]),
        ("cryptsetup", ["luksFormat" | "erase" | "luksErase" | "reencrypt", ..])
        | ("zpool", ["destroy" | "labelclear" | "create", ..])
        | ("zfs", ["destroy", ..])
        | ("nvme", ["format" | "sanitize", ..])
        | (
            "diskutil",
            ["eraseDisk" | "eraseVolume" | "partitionDisk" | "zeroDisk" | "secureErase", ..],
        )
        | ("lvremove" | "vgremove" | "pvremove", _) => true,
        ("hdparm", _) => call.args.iter().any(|arg| arg.text.starts_with("--security-erase")),
        ("mdadm", _) => call.has("", &["zero-superblock"]),
        ("badblocks", _) => call.has("wn", &[]),
        ("shred" | "tee" | "cp" | "mv" | "truncate" | "tune2fs", words) => {
            let last =
                if matches!(call.name, "cp" | "mv") { words.len().saturating_sub(1) } else { 0 };
            words.iter().skip(last).any(|word| is_disk(word))
        }
        // A file with a disk image is no disk.
        (name, words) => {
            let disk = words.iter().any(|word| word.starts_with("/dev/") || word.contains(UNKNOWN));
            name.starts_with("mkfs") && !looks && disk
        }
    };
    if writes {
        judge.find(Class::Disk, call.line, WHY);
    }
}

/// A device, except those that any program may write to.
fn is_raw(path: &str) -> bool {
    let Some(device) = path.strip_prefix("/dev/") else { return false };
    let name = device.split('/').next().unwrap_or_default();
    !matches!(name, "null" | "zero" | "stdout" | "stderr" | "tty" | "shm" | "fd" | "pts" | "full")
}

/// Whether a path is a disk, by the names that operating systems use.
pub(super) fn is_disk(path: &str) -> bool {
    let Some(device) = path.strip_prefix("/dev/") else { return false };
    let kinds = [
        "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "mapper/", "md", "loop", "dm-",
        "mem", "kmem", "port",
    ];
    kinds.iter().any(|kind| device.starts_with(kind))
}
