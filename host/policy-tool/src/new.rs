//! `longshore-policy new`: a folder with a policy to begin with.

use std::path::Path;

use anyhow::{Result, bail};

use crate::Language;
use crate::files::{self, below};

/// Makes the folder.
pub fn run(language: Language, name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if !begins || !name.chars().all(plain) || name.ends_with('-') {
        bail!(
            "{name:?} cannot be a policy's name: lower case letters, digits and -, a letter first"
        );
    }
    let folder = Path::new(name);
    if folder.exists() {
        bail!("{name} exists already: take another name, or remove it");
    }
    write(language, name, folder)?;
    println!("{name}: cd {name}, then longshore-policy build, longshore-policy test .");
    Ok(())
}

/// Writes the template, what all languages have, and what the language's own tools look at.
pub fn write(language: Language, name: &str, folder: &Path) -> Result<()> {
    for part in ["all", language.folder()] {
        for (file, content) in below(&format!("templates/{part}")) {
            // A file that Git or Cargo would heed here has another name.
            let file = file.replace("gitignore", ".gitignore").replace(".in", "");
            let text = String::from_utf8_lossy(content);
            let text = text
                .replace("{{name}}", name)
                .replace("{{crate}}", &name.replace('-', "_"))
                .replace("{{language}}", language.folder());
            files::write(&folder.join(file), text.as_bytes())?;
        }
    }
    files::unpack("wit/policy@0.1.0", &folder.join("wit/deps/policy"))?;
    sdk(language, folder)
}

/// What a build writes again each time: the SDK, and for Rust the contract where the SDK looks.
pub fn sdk(language: Language, folder: &Path) -> Result<()> {
    let own = folder.join(".longshore");
    let to = own.join("sdk").join(language.folder());
    for (file, content) in below(&format!("sdk/{}", language.folder())) {
        let text = String::from_utf8_lossy(content);
        // In the repository it is a member of a workspace.
        let text = text.replace("workspace = \"../../plugins\"\n", "");
        files::write(&to.join(file), text.as_bytes())?;
    }
    match language {
        Language::Rust => files::unpack("wit", &own.join("wit")),
        _ => Ok(()),
    }
}
