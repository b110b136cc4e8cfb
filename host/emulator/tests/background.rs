//! An emulator behind a port, on a thread of its own until the test program ends.

use std::io::{Error, Result};
use std::net::SocketAddr;
use std::sync::mpsc::channel;

use longshore_emulator::{World, serve};

/// Serves a world; where.
pub fn background(world: World) -> Result<SocketAddr> {
    let (say, said) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build()?;
        runtime.block_on(async {
            let server = serve::serve(0, world).await?;
            say.send(server.address()?).map_err(Error::other)?;
            server.run().await;
            Ok::<_, Error>(())
        })
    });
    said.recv().map_err(Error::other)
}
