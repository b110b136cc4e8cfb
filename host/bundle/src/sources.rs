//! All that is configured about where policies are from.

use std::collections::BTreeMap;

use crate::cache::Cache;
use crate::client::{Client, Patience};
use crate::fetch::{Source, fetch, first};
use crate::layout::Layout;
use crate::settings::{RegistrySettings, TrustSettings, mirror_host};
use crate::{Error, Key, LayoutReference, OciReference, Policy, Step};

/// Of a registry that the configuration does not name.
static USUAL: RegistrySettings = RegistrySettings {
    auth_file: None,
    ca_file: None,
    mirror: None,
    plain_http: false,
    insecure: false,
};

/// Registries, keys, and the folder of what was fetched.
#[derive(Clone, Debug, Default)]
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
    /// A policy from the cache, else from its registry's mirror, else from its registry. Beside it,
    /// what went wrong with the cache.
    ///
    /// Blocks for as long as [`Patience`] says, for each request.
    ///
    /// # Errors
    /// What failed, at which step.
    pub fn oci(&self, reference: &OciReference) -> Result<(Policy, Option<Error>), Error> {
        let keys = self.keys(&reference.name())?;
        let mut note = None;
        if let Some(cache) = &self.cache {
            match cache.get(&reference.digest, &keys) {
                Ok(Some(policy)) => return Ok((policy, None)),
                Ok(None) => {}
                Err(error) => note = Some(error),
            }
        }
        let clients = self.clients(reference)?;
        let sources: Vec<&dyn Source> = clients.iter().map(|c| c as &dyn Source).collect();
        let policy = first(&sources, &reference.digest, &keys)?;
        if let Some(Err(error)) = self.cache.as_ref().map(|cache| cache.put(&policy)) {
            note = Some(error);
        }
        Ok((policy, note))
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
            let pem = std::fs::read_to_string(path).map_err(|error| said(error.to_string()))?;
            let file = path.display().to_string();
            Key::from_pem(&file, &pem).map_err(|why| said(why.to_string()))
        };
        covering.map(read).collect()
    }
}
