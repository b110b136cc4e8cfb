//! All that is configured about where policies are from.

use std::collections::BTreeMap;

use longshore_files::MAX_TEXT_BYTES;

use crate::cache::Cache;
use crate::client::{Client, Patience};
use crate::fetch::{Source, fetch, first};
use crate::layout::Layout;
use crate::settings::{RegistrySettings, TrustSettings, mirror_host};
use crate::{Error, Key, LayoutReference, OciReference, Policy, Reference, Step};

/// Of a registry that the configuration does not name.
static USUAL: RegistrySettings = RegistrySettings {
    auth_file: None,
    ca_file: None,
    mirror: None,
    plain_http: false,
    insecure: false,
};

/// Registries, keys, and the folder of what was fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// By host.
    pub registries: BTreeMap<String, RegistrySettings>,
    /// Which references need a signature.
    pub trust: Vec<TrustSettings>,
    /// Without it every start asks the registries.
    pub cache: Option<Cache>,
    /// How long they are waited for.
    pub patience: Patience,
}

impl Sources {
    /// A policy from wherever it is. Beside it, what went wrong with the cache.
    ///
    /// Blocks for as long as [`Patience`] says.
    ///
    /// # Errors
    /// What failed, at which step.
    pub fn get(&self, reference: &Reference) -> Result<(Policy, Option<Error>), Error> {
        match reference {
            Reference::Oci(reference) => self.oci(reference),
            Reference::Layout(reference) => self.layout(reference).map(|policy| (policy, None)),
        }
    }

    /// A policy that is on this machine: kept, or in a folder.
    ///
    /// # Errors
    /// What is there and cannot be used.
    pub fn near(&self, reference: &Reference) -> Result<Option<Policy>, Error> {
        match reference {
            Reference::Oci(reference) => self.kept(reference),
            Reference::Layout(reference) => self.layout(reference).map(Some),
        }
    }

    /// A policy from the cache, else as [`Sources::registry`].
    ///
    /// # Errors
    /// What failed, at which step.
    pub fn oci(&self, reference: &OciReference) -> Result<(Policy, Option<Error>), Error> {
        let before = match self.kept(reference) {
            Ok(Some(policy)) => return Ok((policy, None)),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        let (policy, note) = self.registry(reference)?;
        Ok((policy, note.or(before)))
    }

    fn kept(&self, reference: &OciReference) -> Result<Option<Policy>, Error> {
        let keys = self.keys(&reference.name())?;
        let kept = |cache: &Cache| cache.get(&reference.digest, &keys);
        self.cache.as_ref().map_or(Ok(None), kept)
    }

    /// A policy from its registry's mirror, else from its registry, and kept from then on. Beside
    /// it, why it was not kept.
    ///
    /// Blocks for as long as [`Patience`] says.
    ///
    /// # Errors
    /// What failed, at which step.
    pub fn registry(&self, reference: &OciReference) -> Result<(Policy, Option<Error>), Error> {
        let keys = self.keys(&reference.name())?;
        let clients = self.clients(reference)?;
        let sources: Vec<&dyn Source> = clients.iter().map(|c| c as &dyn Source).collect();
        let policy = first(&sources, &reference.digest, &keys)?;
        let kept = self.cache.as_ref().map(|cache| cache.put(&policy));
        Ok((policy, kept.and_then(Result::err)))
    }

    /// A policy from a folder. It is not kept: the folder is as near.
    ///
    /// # Errors
    /// What failed, at which step.
    pub fn layout(&self, reference: &LayoutReference) -> Result<Policy, Error> {
        let folder = &reference.folder;
        let keys = self.keys(&folder.to_string_lossy())?;
        fetch(&Layout { folder }, &reference.digest, &keys)
    }

    /// The mirror if there is one, then the registry. A mirror has settings of its own: it is never
    /// shown the registry's credentials.
    fn clients<'a>(&'a self, reference: &'a OciReference) -> Result<Vec<Client<'a>>, Error> {
        let of = |host: &str| self.registries.get(host).unwrap_or(&USUAL);
        let own = of(&reference.host);
        let mut clients = Vec::new();
        if let Some(mirror) = &own.mirror {
            let host = mirror_host(mirror);
            let path = mirror[host.len()..].trim_matches('/');
            let repository = match path {
                "" => reference.repository.clone(),
                path => format!("{path}/{}", reference.repository),
            };
            clients.push(Client::new(host, repository, of(host), self.patience)?);
        }
        let repository = reference.repository.clone();
        clients.push(Client::new(
            &reference.host,
            repository,
            own,
            self.patience,
        )?);
        Ok(clients)
    }

    /// The keys of which one must have signed what has that name.
    fn keys(&self, name: &str) -> Result<Vec<Key>, Error> {
        let covering = self.trust.iter().filter(|trust| trust.covers(name));
        let read = |trust: &TrustSettings| {
            let path = &trust.key_file;
            let said = |why: String| Error::new(Step::Settings, path.display(), why);
            let pem = longshore_files::read_text(path, MAX_TEXT_BYTES)
                .map_err(|error| said(error.to_string()))?;
            let file = path.display().to_string();
            Key::from_pem(&file, &pem).map_err(|why| said(why.to_string()))
        };
        covering.map(read).collect()
    }
}
