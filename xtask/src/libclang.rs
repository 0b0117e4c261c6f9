//! Libclang, which building RocksDB takes: found, or installed where that can be done without asking (Debian, as
//! root). With it comes clang, which building RocksDB is quicker with.

use std::{env, fs, path::Path, process::Command};

use crate::stages::succeeds;

/// Packages in Debian 12: the library, the compiler's own headers, and the compiler.
const PACKAGES: [&str; 3] = ["libclang1-14", "libclang-common-14-dev", "clang"];

/// Makes sure that the library is there, or says why not.
pub(crate) fn ready() -> Result<(), &'static str> {
    if !is_there() || !has_compiler() {
        install();
        if !is_there() {
            return Err(
                "libclang is missing and could not be installed (`apt-get install libclang-dev`)",
            );
        }
    }
    Ok(())
}

/// Whether there is clang for C++.
pub(crate) fn has_compiler() -> bool {
    succeeds(Command::new("clang++").arg("--version"))
}

/// Whether bindgen would find the library: where it is told to look, or where Debian and others put it.
fn is_there() -> bool {
    let is_in = |folder: &Path| {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        files
            .map(|file| file.file_name())
            .any(|name| is_libclang(&name.to_string_lossy()))
    };
    let told = env::var_os("LIBCLANG_PATH");
    let versions = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let versions = versions.map(|folder| folder.path().join("lib"));
    let usual = [
        "/usr/lib",
        "/usr/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
    ];
    told.is_some_and(|folder| is_in(folder.as_ref()))
        || usual.iter().any(|folder| is_in(folder.as_ref()))
        || versions.into_iter().any(|folder| is_in(&folder))
}

/// Whether a file of this name is the C interface, which bindgen asks for. The C++ one, `libclang-cpp`, stands
/// beside it, or alone.
fn is_libclang(name: &str) -> bool {
    let rest = name.strip_prefix("libclang").unwrap_or_default();
    rest.contains(".so") && rest.starts_with(['.', '-']) && !rest.starts_with("-cpp")
}

/// Installs it, where that is possible.
fn install() {
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.args(arguments)
            .args(PACKAGES)
            .env("DEBIAN_FRONTEND", "noninteractive");
        succeeds(&mut apt)
    };
    let install = ["install", "--yes", "--no-install-recommends"];
    if !apt(&install) && succeeds(Command::new("apt-get").arg("update")) {
        apt(&install);
    }
}

#[cfg(test)]
mod tests {
    use super::is_libclang;

    #[test]
    fn the_c_interface_is_told_from_the_cpp_one() {
        for name in [
            "libclang.so",
            "libclang.so.1",
            "libclang-14.so.1",
            "libclang-14.0.6.so",
        ] {
            assert!(is_libclang(name), "{name}");
        }
        for name in [
            "libclang-cpp.so.14",
            "libclangBasic.a",
            "libclang",
            "libLLVM.so",
        ] {
            assert!(!is_libclang(name), "{name}");
        }
    }
}
