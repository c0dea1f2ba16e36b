//! The contents of a database's files, byte by byte: the manifest's edits, a table's pages and
//! entries, filters over several runs, the log's records.
//!
//! Nothing is opened as a database, locked or changed. So all of this works beside a writer and on
//! a damaged database. Damage is an [`Error`](crate::base::error::Error) in its place, with file
//! and offset; reading continues behind it where possible. The engine's own decoders decode
//! everything. The types follow the formats (`docs/format`) and change with them.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! use hedgerow::inspect::{self, Change};
//! use hedgerow::{Db, Layout, io::OsStorage};
//!
//! let db = Db::open(dir.path())?;
//! db.keyspace("users", Layout::sorted())?.put("ada", "1815")?;
//! let storage = OsStorage::default();
//!
//! let manifest = inspect::manifest(&storage, dir.path())?;
//! let created = |change: &Change| matches!(change, Change::CreateKeyspace { .. });
//! assert!(manifest.state.unwrap().iter().any(created));
//!
//! let mut records = 0;
//! for number in inspect::segments(&storage, dir.path())? {
//!     records += inspect::Segment::open(&storage, dir.path(), number)?.count();
//! }
//! assert_eq!(records, 1);
//! # Ok::<(), hedgerow::Error>(())
//! ```

mod change;
mod filter_file;
mod manifest_file;
mod segments;

pub use change::{Change, Edit, TreeEdit};
pub use filter_file::GroupFilter;
pub use manifest_file::{Manifest, ManifestRecord, manifest};
pub use segments::{LogRecord, Operation, Segment, SegmentEnd, segments};

pub use crate::base::entry::RunId;
pub use crate::base::entry::{KeyspaceId, LogPosition, PartitionId, SeqNo};
pub use crate::base::page::{Handle, TableId};
pub use crate::design::merge_policy::tree_edit::Placement;
pub use crate::group_filter::{ClusterContents, CuckooContents, FilterContents, Stripe};
pub use crate::table::filter::bloom::Description as BloomDescription;
pub use crate::table::filter::bucket_bloom::Description as BucketsDescription;
pub use crate::table::filter::cuckoo::Description as CuckooDescription;
pub use crate::table::filter::run_hashes::Description as HashesDescription;
pub use crate::table::filter::table_filter::Description as FilterDescription;
pub use crate::table::{
    Footer, InspectedPage as TablePage, InspectedTable as Table, Part, StoredEntry, StoredValue,
    TableFacts,
};
pub use crate::tree::version::edit::EntryCounts;
pub use crate::tree::version::places::{Place, Places};
