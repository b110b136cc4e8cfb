//! The OCI image layout: blobs by digest, a manifest, a configuration and an index; and the bill of
//! materials as an artifact that refers to the image.
//!
//! The three documents are written here and not by a library, because those keep labels in hash
//! maps, whose order changes from run to run.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::Source;
use super::debian::sha256;
use super::tree::{Tree, USER, gzip};

/// Name of the image.
pub const NAME: &str = "longshore";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
const SPDX: &str = "application/spdx+json";

/// A layer, packed.
pub struct Layer {
    pub what: &'static str,
    pub blob: Vec<u8>,
    /// Digest of what is packed.
    diff: String,
    /// Bytes of its tar.
    pub unpacked: u64,
}

impl Layer {
    pub fn new(what: &'static str, tree: &Tree) -> Result<Self> {
        let tar = tree.tar()?;
        Ok(Self {
            what,
            blob: gzip(&tar)?,
            diff: format!("sha256:{}", sha256(&tar)),
            unpacked: tar.len() as u64,
        })
    }
}

/// Writes the layout in place of what is there, and says the digest of the image.
pub fn write(out: &Path, source: &Source, layers: &[Layer], sbom: &[u8]) -> Result<String> {
    let name = out.file_name().context("no name for the layout")?;
    let fresh = out.with_file_name(format!("{}.new", name.to_string_lossy()));
    remove(&fresh)?;
    let blobs = Blobs {
        folder: fresh.join("blobs/sha256"),
    };
    fs::create_dir_all(&blobs.folder)
        .with_context(|| format!("cannot make {}", blobs.folder.display()))?;

    let config = blobs.json(CONFIG, &config(source, layers))?;
    let parts = layers
        .iter()
        .map(|layer| blobs.put(LAYER, &layer.blob))
        .collect::<Result<Vec<_>>>()?;
    let image = blobs.json(
        MANIFEST,
        &json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": parts,
            "annotations": labels(source),
        }),
    )?;
    let bill = blobs.json(
        MANIFEST,
        &json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": SPDX,
            "config": blobs.put(EMPTY, b"{}")?,
            "layers": [blobs.put(SPDX, sbom)?],
            "subject": image,
            "annotations": {"org.opencontainers.image.created": source.date()},
        }),
    )?;
    let digest = image["digest"].as_str().unwrap_or_default().to_owned();
    let mut listed = image;
    listed["platform"] = json!({"architecture": "amd64", "os": "linux"});
    listed["annotations"] = json!({"org.opencontainers.image.ref.name": source.version});
    let mut listed_bill = bill;
    listed_bill["artifactType"] = SPDX.into();
    let index = json!({
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [listed, listed_bill],
    });
    fs::write(fresh.join("index.json"), serde_json::to_vec(&index)?)?;
    fs::write(
        fresh.join("oci-layout"),
        r#"{"imageLayoutVersion":"1.0.0"}"#,
    )?;
    remove(out)?;
    fs::rename(&fresh, out).with_context(|| format!("cannot make {}", out.display()))?;
    Ok(digest)
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

struct Blobs {
    folder: std::path::PathBuf,
}

impl Blobs {
    /// Writes a blob; its descriptor.
    fn put(&self, kind: &str, bytes: &[u8]) -> Result<Value> {
        let sum = sha256(bytes);
        fs::write(self.folder.join(&sum), bytes)?;
        Ok(json!({"mediaType": kind, "digest": format!("sha256:{sum}"), "size": bytes.len()}))
    }

    fn json(&self, kind: &str, value: &Value) -> Result<Value> {
        self.put(kind, &serde_json::to_vec(value)?)
    }
}

/// The configuration that a runtime reads.
fn config(source: &Source, layers: &[Layer]) -> Value {
    let history: Vec<Value> = layers
        .iter()
        .map(|layer| json!({"created": source.date(), "created_by": format!("cargo xtask image: {}", layer.what)}))
        .collect();
    json!({
        "architecture": "amd64",
        "os": "linux",
        "created": source.date(),
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": [
                "PATH=/usr/local/bin:/usr/bin:/bin",
                "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
            ],
            "Entrypoint": ["/usr/local/bin/longshore"],
            "WorkingDir": "/",
            "Labels": labels(source),
        },
        "rootfs": {
            "type": "layers",
            "diff_ids": layers.iter().map(|layer| &layer.diff).collect::<Vec<_>>(),
        },
        "history": history,
    })
}

fn labels(source: &Source) -> Value {
    let home = "https://github.com/longshore-dev/longshore";
    json!({
        "org.opencontainers.image.title": NAME,
        "org.opencontainers.image.description": "A Kubernetes node autoscaler with Karpenter's API",
        "org.opencontainers.image.version": source.version,
        "org.opencontainers.image.revision": source.commit,
        "org.opencontainers.image.created": source.date(),
        "org.opencontainers.image.source": home,
        "org.opencontainers.image.url": home,
        "org.opencontainers.image.licenses": "Apache-2.0",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_layouts_of_one_source_are_equal_and_their_digests_lead_from_blob_to_blob() {
        let source = Source {
            commit: "abc".into(),
            time: 1_795_643_999,
            version: "0.1.0".into(),
        };
        let mut tree = Tree::at(source.time);
        tree.file("usr/local/bin/longshore", 0o755, b"program".to_vec());
        let folder = std::env::temp_dir().join(format!("longshore-layout-{}", std::process::id()));
        let layout = |name: &str| {
            let layers = [Layer::new("longshore", &tree).unwrap()];
            let out = folder.join(name);
            let digest = write(&out, &source, &layers, b"{}").unwrap();
            let mut files: Vec<(String, Vec<u8>)> = ["index.json", "oci-layout"]
                .map(|file| (file.to_owned(), fs::read(out.join(file)).unwrap()))
                .into();
            for entry in fs::read_dir(out.join("blobs/sha256")).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                files.push((name, fs::read(&path).unwrap()));
            }
            files.sort();
            (digest, files)
        };
        let (digest, files) = layout("one");
        assert_eq!((digest.clone(), files.clone()), layout("other"));
        // Written over what was there.
        assert_eq!((digest.clone(), files.clone()), layout("one"));
        let blob = |digest: &str| -> Value {
            let name = digest.strip_prefix("sha256:").unwrap();
            let (_, bytes) = files.iter().find(|(file, _)| file == name).unwrap();
            assert_eq!(sha256(bytes), name);
            serde_json::from_slice(bytes).unwrap()
        };
        let manifest = blob(&digest);
        let config = blob(manifest["config"]["digest"].as_str().unwrap());
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Labels"], manifest["annotations"]);
        assert_eq!(config["created"], "2026-11-25T21:59:59Z");
        let index = &files
            .iter()
            .find(|(name, _)| name == "index.json")
            .unwrap()
            .1;
        let index: Value = serde_json::from_slice(index).unwrap();
        assert_eq!(index["manifests"][0]["digest"], digest);
        let bill = blob(index["manifests"][1]["digest"].as_str().unwrap());
        assert_eq!(bill["subject"]["digest"], digest);
        fs::remove_dir_all(folder).unwrap();
    }
}
