//! A redb file passes what is asked of every store, and on a disk that fails what is asked of those that
//! write to one.

use crate::common;

use std::io;

use quorate_conformance::FaultyDisk;
use quorate_driver::store::Store;
use quorate_store_redb::Redb;
use redb::StorageBackend;

mod file {
    use super::*;

    quorate_conformance::store_conformance!({
        let path = common::directory().join("node.redb");
        Some(move || Box::new(Redb::open(&path).unwrap()) as Box<dyn Store>)
    });
}

mod failing_disk {
    use super::*;

    quorate_conformance::store_faults!(on_disk);
}

fn on_disk(disk: FaultyDisk) -> Box<dyn Store> {
    Box::new(Redb::on(move || Ok(Box::new(OnDisk(disk.clone())))))
}

#[derive(Debug)]
struct OnDisk(FaultyDisk);

impl StorageBackend for OnDisk {
    fn len(&self) -> Result<u64, io::Error> {
        self.0.size()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.0.write(offset, data)
    }
}
