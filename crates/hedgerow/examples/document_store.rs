//! A store of documents with two indexes, in which any number of threads write without a lock of
//! their own.
//!
//! Each document has a city and an age. Two more keyspaces find documents by them. A transaction
//! reads the old document, so that it can remove its entries from the indexes, and writes the new
//! one with its entries. If another thread has changed the document meanwhile, it begins again. So
//! the indexes always agree with the documents.
//!
//! Run with `cargo run --example document_store`.
#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use hedgerow::{Db, Error, Keyspace, Layout, Result, Slice, Transaction};

struct People {
    db: Db,
    /// The name: the city and the age.
    documents: Keyspace,
    /// `CITY/NAME`.
    by_city: Keyspace,
    /// The age in three digits, and `/NAME`.
    by_age: Keyspace,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Person {
    city: String,
    age: u32,
}

impl Person {
    fn encode(&self) -> String {
        format!("{}/{}", self.age, self.city)
    }

    fn decode(bytes: &[u8]) -> Option<Person> {
        let (age, city) = std::str::from_utf8(bytes).ok()?.split_once('/')?;
        Some(Person {
            city: city.to_owned(),
            age: age.parse().ok()?,
        })
    }

    /// The keys of its entries in both indexes.
    fn entries(&self, name: &str) -> [String; 2] {
        [
            format!("{}/{name}", self.city),
            format!("{:03}/{name}", self.age),
        ]
    }
}

impl People {
    fn open(db: Db) -> Result<People> {
        Ok(People {
            documents: db.keyspace("people", Layout::sorted().hash(4))?,
            by_city: db.keyspace("people-by-city", Layout::sorted())?,
            by_age: db.keyspace("people-by-age", Layout::sorted())?,
            db,
        })
    }

    /// Replaces a document by what `change` makes of it; `None` is no document.
    fn change(
        &self,
        name: &str,
        change: impl Fn(Option<Person>) -> Option<Person>,
    ) -> Result<Option<Person>> {
        self.db.transact(|t| {
            let old = t.get(&self.documents, name)?;
            let old = old.and_then(|bytes| Person::decode(&bytes));
            for (index, entry) in self.entries(name, old.as_ref()) {
                t.delete(index, entry)?;
            }
            let new = change(old);
            match &new {
                Some(person) => t.put(&self.documents, name, person.encode())?,
                None => t.delete(&self.documents, name)?,
            };
            for (index, entry) in self.entries(name, new.as_ref()) {
                t.put(index, entry, "")?;
            }
            Ok::<_, Error>(new)
        })
    }

    fn entries(&self, name: &str, person: Option<&Person>) -> Vec<(&Keyspace, String)> {
        let entries = person.map(|person| person.entries(name));
        let indexes = [&self.by_city, &self.by_age];
        entries.map_or(Vec::new(), |entries| {
            indexes.into_iter().zip(entries).collect()
        })
    }

    /// The documents of a city, read at one moment with its index.
    fn in_city(&self, city: &str) -> Result<Vec<(String, Person)>> {
        let mut t = self.db.transaction()?;
        let found = t.scan_prefix(&self.by_city, format!("{city}/"))?;
        let mut people = Vec::new();
        for entry in found.keys() {
            let name = text(&entry?[city.len() + 1..]);
            people.push((name.clone(), self.get(&mut t, &name)?));
        }
        Ok(people)
    }

    fn get(&self, t: &mut Transaction, name: &str) -> Result<Person> {
        let document = t.get(&self.documents, name)?;
        let person = document.and_then(|bytes: Slice| Person::decode(&bytes));
        Ok(person.expect("an index names documents that exist"))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const NAMES: [&str; 5] = ["ada", "alan", "barbara", "edsger", "grace"];
const CITIES: [&str; 3] = ["london", "nuenen", "new york"];
const THREADS: u32 = 4;
const BIRTHDAYS: u32 = 100;

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let people = People::open(Db::open(dir.path())?)?;
    // Each thread has some birthdays and moves; all of them about the same five people.
    let work = |thread: u32| -> Result<()> {
        for i in 0..BIRTHDAYS {
            let city = CITIES[((thread + i) % 3) as usize];
            people.change(NAMES[(i % 5) as usize], |person| {
                Some(Person {
                    age: person.map_or(0, |person| person.age) + 1,
                    city: city.to_owned(),
                })
            })?;
        }
        Ok(())
    };
    let (work, people) = (&work, &people);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|it| scope.spawn(move || work(it)))
            .collect();
        let mut ends = threads.into_iter().map(|it| it.join());
        ends.try_for_each(|end| end.expect("no thread panics"))
    })?;
    people.change("edsger", |_| None)?;

    let mut ages = 0;
    for city in CITIES {
        for (name, person) in people.in_city(city)? {
            println!("{city}: {name}, {} years old", person.age);
            ages += person.age;
        }
    }
    // No birthday was lost: one in five was that of the one who is gone.
    assert_eq!(ages, THREADS * BIRTHDAYS * 4 / 5);
    assert_eq!(people.by_age.scan_all()?.count(), 4);
    assert_eq!(people.by_city.scan_all()?.count(), 4);
    println!(
        "{} commits were refused",
        people.db.stats().transaction_conflicts
    );
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
