//! The end of a file.

use hedgerow_io::sim::SimStorage;

use super::*;

fn context(storage: SimStorage) -> Arc<TableContext> {
    Arc::new(TableContext {
        storage: Arc::new(storage),
        read_mode: ReadMode::default(),
        memory: Arc::new(Memory::new(8 << 20)),
        stats: Arc::default(),
        graveyard: Mutex::default(),
        removing: Mutex::default(),
    })
}

/// The cache looks at all of its pages when many bytes of it may belong to files that are gone.
#[test]
fn a_file_that_was_never_opened_has_no_pages_in_the_cache() {
    let disk = SimStorage::new(0);
    disk.set_contents("/file", &[0; 100]).unwrap();
    let context = context(disk);
    for is_opened in [false, true] {
        let file = PagedFile::new(TableId(1), "/file".into(), 100, context.clone());
        if is_opened {
            file.file().unwrap();
        }
        file.mark_obsolete();
        drop(file);
        let buried = context.graveyard.lock().unwrap().pop().unwrap();
        assert_eq!(buried.path, Path::new("/file"));
        assert_eq!(buried.cached_bytes_max, if is_opened { 100 } else { 0 });
    }
}
