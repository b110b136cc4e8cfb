//! An emulator behind a port, on a thread of its own until the test program ends.

use std::io::Result;
use std::net::SocketAddr;

use longshore_emulator::{World, serve};
use tokio::runtime::Builder;

/// Serves a world. Returns the address.
pub fn background(world: World) -> Result<SocketAddr> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let server = runtime.block_on(serve::serve(0, world))?;
    let address = server.address()?;
    std::thread::spawn(move || runtime.block_on(server.run()));
    Ok(address)
}
