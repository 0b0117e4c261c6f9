//! The stores of this crate take the exam that others take.

use std::{cell::RefCell, path::PathBuf};

use cutwater_storage::{
    LocalBlobs,
    testkit::{BlockOn, FaultyBlobs, MemoryBlobs, conforms},
};

const BLOCK_ON: BlockOn<'_> = &|future| futures::executor::block_on(future);

#[test]
fn local_blobs_conform() {
    let directories = RefCell::new(Vec::new());
    conforms(
        || {
            let directory = tempfile::tempdir().unwrap();
            let root: PathBuf = directory.path().join("made/on/open");
            directories.borrow_mut().push(directory);
            LocalBlobs::open(root).unwrap()
        },
        BLOCK_ON,
    );
}

#[test]
fn memory_blobs_conform() {
    conforms(MemoryBlobs::new, BLOCK_ON);
}

#[test]
fn faulty_blobs_without_faults_conform() {
    conforms(|| FaultyBlobs::new(MemoryBlobs::new()), BLOCK_ON);
}

#[cfg(feature = "opendal")]
#[test]
fn opendal_blobs_conform() {
    use cutwater_storage::OpendalBlobs;
    let open = async || {
        let operator = opendal::Operator::new(opendal::services::Memory::default()).unwrap();
        OpendalBlobs::open(operator).await.unwrap()
    };
    conforms(|| futures::executor::block_on(open()), BLOCK_ON);
}
