import io.hedgerow.Batch;
import io.hedgerow.EntryIterator;
import io.hedgerow.Hedgerow;
import io.hedgerow.KeyRange;
import io.hedgerow.Keyspace;
import io.hedgerow.Options;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.CompressionType;
import org.rocksdb.FlushOptions;
import org.rocksdb.LRUCache;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.WriteBatch;
import org.rocksdb.WriteOptions;

/**
 * Hedgerow beside RocksDB's Java binding in one process: the same keys, values, operations and
 * memory, both in turn in every round. Neither compresses or syncs, both have filters, and both
 * compact all they have before they are read. Prints medians in microseconds per operation, and
 * writes a JSON row for each round, operation and engine, with the machine and the versions.
 *
 * <p>{@code Beside ENTRIES ROUNDS [FILE OF ROWS]}
 */
public final class Beside {
    private static final int VALUE_BYTES = 100;
    private static final int MEMORY_BYTES = 64 << 20;
    private static final int WRITE_BUFFER_BYTES = 8 << 20;
    private static final int MANY = 100;

    private final int entries;
    private final Map<String, Map<String, List<Double>>> micros = new LinkedHashMap<>();
    private final List<String> rows = new ArrayList<>();
    /** The fields that all rows have. */
    private final String settings;

    private Beside(int entries) throws IOException {
        this.entries = entries;
        settings = settings(entries);
    }

    /** A database of either engine. */
    private interface Side extends AutoCloseable {
        void put(byte[] key, byte[] value) throws RocksDBException;

        void putAll(byte[][] keys, byte[] value) throws RocksDBException;

        byte[] get(byte[] key) throws RocksDBException;

        List<byte[]> getAll(List<byte[]> keys) throws RocksDBException;

        /** Reads entries from a key on; returns how many there were. */
        int scan(byte[] from, int entriesMax);

        /** Compacts everything. */
        void settle() throws RocksDBException;

        @Override
        void close();
    }

    private static final class OfHedgerow implements Side {
        private final Hedgerow db;
        private final Keyspace keyspace;

        OfHedgerow(Path dir) {
            db = Hedgerow.open(dir, new Options().memoryBudget(MEMORY_BYTES));
            keyspace = db.keyspace("k", "sorted", "compression = none");
        }

        @Override
        public void put(byte[] key, byte[] value) {
            keyspace.put(key, value);
        }

        @Override
        public void putAll(byte[][] keys, byte[] value) {
            Batch batch = db.batch();
            for (byte[] key : keys) {
                batch.put(keyspace, key, value);
            }
            batch.commit();
        }

        @Override
        public byte[] get(byte[] key) {
            return keyspace.get(key);
        }

        @Override
        public List<byte[]> getAll(List<byte[]> keys) {
            return keyspace.multiGet(keys);
        }

        @Override
        public int scan(byte[] from, int entriesMax) {
            int found = 0;
            try (EntryIterator all = keyspace.iterate(KeyRange.from(from))) {
                for (; found < entriesMax && all.hasNext(); found++) {
                    all.next();
                }
            }
            return found;
        }

        @Override
        public void settle() {
            db.flush().await();
            keyspace.compact(KeyRange.all()).await();
        }

        @Override
        public void close() {
            db.close();
        }
    }

    private static final class OfRocksDb implements Side {
        private final WriteOptions writes = new WriteOptions();
        private final LRUCache cache = new LRUCache(MEMORY_BYTES - 2 * WRITE_BUFFER_BYTES);
        private final BloomFilter filter = new BloomFilter(10);
        private final org.rocksdb.Options options = new org.rocksdb.Options();
        private final RocksDB db;

        OfRocksDb(Path dir) throws RocksDBException {
            BlockBasedTableConfig tables = new BlockBasedTableConfig();
            tables.setBlockCache(cache);
            tables.setFilterPolicy(filter);
            tables.setCacheIndexAndFilterBlocks(true);
            options.setCreateIfMissing(true)
                    .setCompressionType(CompressionType.NO_COMPRESSION)
                    .setWriteBufferSize(WRITE_BUFFER_BYTES)
                    .setMaxWriteBufferNumber(2)
                    .setTableFormatConfig(tables);
            db = RocksDB.open(options, dir.toString());
        }

        @Override
        public void put(byte[] key, byte[] value) throws RocksDBException {
            db.put(key, value);
        }

        @Override
        public void putAll(byte[][] keys, byte[] value) throws RocksDBException {
            try (WriteBatch batch = new WriteBatch()) {
                for (byte[] key : keys) {
                    batch.put(key, value);
                }
                db.write(writes, batch);
            }
        }

        @Override
        public byte[] get(byte[] key) throws RocksDBException {
            return db.get(key);
        }

        @Override
        public List<byte[]> getAll(List<byte[]> keys) throws RocksDBException {
            return db.multiGetAsList(keys);
        }

        @Override
        public int scan(byte[] from, int entriesMax) {
            int found = 0;
            try (RocksIterator all = db.newIterator()) {
                for (all.seek(from); found < entriesMax && all.isValid(); found++) {
                    all.key();
                    all.value();
                    all.next();
                }
            }
            return found;
        }

        @Override
        public void settle() throws RocksDBException {
            try (FlushOptions waits = new FlushOptions()) {
                db.flush(waits);
            }
            db.compactRange();
        }

        @Override
        public void close() {
            db.close();
            options.close();
            filter.close();
            cache.close();
            writes.close();
        }
    }

    private interface Work {
        void run() throws RocksDBException;
    }

    /** {@code user}, eleven digits, and 0 or 1. Cheap, because its making is measured, too. */
    private static byte[] key(int number, boolean present) {
        byte[] key = {'u', 's', 'e', 'r', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0'};
        for (int at = 14, rest = number; rest > 0; at--, rest /= 10) {
            key[at] = (byte) ('0' + rest % 10);
        }
        key[15] = (byte) (present ? '0' : '1');
        return key;
    }

    private void measure(String side, String what, int operations, Work work) throws RocksDBException {
        long began = System.nanoTime();
        work.run();
        double each = (System.nanoTime() - began) / 1e3 / operations;
        rows.add(String.format(
                Locale.ROOT,
                "{%s, \"operation\": \"%s\", \"store\": \"%s\", \"operations\": %d, \"us_per_operation\": %.4f,"
                        + " \"load\": %.2f}",
                settings,
                what,
                side,
                operations,
                each,
                ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage()));
        micros.computeIfAbsent(what, it -> new LinkedHashMap<>())
                .computeIfAbsent(side, it -> new ArrayList<>())
                .add(each);
    }

    private void round(String name, Side side) throws RocksDBException {
        Random random = new Random(1);
        byte[] value = new byte[VALUE_BYTES];
        random.nextBytes(value);
        measure(name, "put, in batches of 100", entries, () -> {
            for (int i = 0; i < entries; i += MANY) {
                byte[][] keys = new byte[MANY][];
                for (int j = 0; j < MANY; j++) {
                    // Every key once, in an order like a random one.
                    keys[j] = key((int) ((i + j) * 7919L % entries), true);
                }
                side.putAll(keys, value);
            }
        });
        int some = entries / 2;
        measure(name, "put, one at a time", some, () -> {
            for (int i = 0; i < some; i++) {
                side.put(key(random.nextInt(entries), true), value);
            }
        });
        side.settle();
        measure(name, "get, present keys", some, () -> {
            for (int i = 0; i < some; i++) {
                if (side.get(key(random.nextInt(entries), true)) == null) {
                    throw new IllegalStateException("a key is missing in " + name);
                }
            }
        });
        measure(name, "get, absent keys", some, () -> {
            for (int i = 0; i < some; i++) {
                if (side.get(key(random.nextInt(entries), false)) != null) {
                    throw new IllegalStateException("an absent key is in " + name);
                }
            }
        });
        measure(name, "get, 100 keys together", some, () -> {
            for (int i = 0; i < some; i += MANY) {
                List<byte[]> keys = new ArrayList<>();
                for (int j = 0; j < MANY; j++) {
                    keys.add(key(random.nextInt(entries), true));
                }
                if (side.getAll(keys).contains(null)) {
                    throw new IllegalStateException("a key is missing in " + name);
                }
            }
        });
        measure(name, "scan of all, per entry", entries, () -> {
            if (side.scan(key(0, true), entries) != entries) {
                throw new IllegalStateException("an entry is missing in " + name);
            }
        });
        measure(name, "scan of 100", some / MANY, () -> {
            for (int i = 0; i < some / MANY; i++) {
                side.scan(key(random.nextInt(entries), true), MANY);
            }
        });
    }

    private static double median(List<Double> values) {
        double[] sorted = values.stream().mapToDouble(it -> it).sorted().toArray();
        return sorted[sorted.length / 2];
    }

    /** The value behind a name in a file of the kernel. */
    private static String fact(String file, String name) throws IOException {
        try (Stream<String> lines = Files.lines(Path.of(file))) {
            return lines.filter(line -> line.startsWith(name))
                    .map(line -> line.substring(line.indexOf(':') + 1).trim())
                    .findFirst()
                    .orElse("");
        }
    }

    private static String object(String... namesAndValues) {
        List<String> fields = new ArrayList<>();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            fields.add("\"" + namesAndValues[i] + "\": \"" + namesAndValues[i + 1].replace("\"", "'") + "\"");
        }
        return fields.stream().collect(Collectors.joining(", ", "{", "}"));
    }

    private static String settings(int entries) throws IOException {
        String machine = object(
                "cores", String.valueOf(Runtime.getRuntime().availableProcessors()),
                "cpu", fact("/proc/cpuinfo", "model name"),
                "kernel", System.getProperty("os.version"),
                "memory", fact("/proc/meminfo", "MemTotal"));
        String versions = object(
                "java", System.getProperty("java.version"),
                "vm", System.getProperty("java.vm.name"),
                "hedgerow", System.getProperty("beside.hedgerow"),
                "rocksdbjni", RocksDB.rocksdbVersion().toString());
        return String.format(
                "\"bench\": \"java\", \"date\": \"%s\", \"entries\": %d, \"value_bytes\": %d, \"memory_mib\": %d,"
                        + " \"machine\": %s, \"versions\": %s",
                Instant.now(), entries, VALUE_BYTES, MEMORY_BYTES >> 20, machine, versions);
    }

    private void inNewDirectory(String name) throws Exception {
        Path dir = Files.createTempDirectory("beside");
        try (Side side = name.equals("hedgerow") ? new OfHedgerow(dir) : new OfRocksDb(dir)) {
            round(name, side);
        } finally {
            try (Stream<Path> files = Files.walk(dir)) {
                files.sorted((a, b) -> b.compareTo(a)).forEach(it -> it.toFile().delete());
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        int entries = Integer.parseInt(arguments[0]) / MANY * MANY;
        int rounds = Integer.parseInt(arguments[1]);
        RocksDB.loadLibrary();
        Beside beside = new Beside(entries);
        for (int round = 0; round < rounds; round++) {
            // Neither is always the first.
            boolean isEven = round % 2 == 0;
            beside.inNewDirectory(isEven ? "hedgerow" : "rocksdb");
            beside.inNewDirectory(isEven ? "rocksdb" : "hedgerow");
        }
        System.out.printf("{%s}%n%d rounds%n", beside.settings, rounds);
        System.out.println("| operation | hedgerow | rocksdb | times as fast |\n|---|---|---|---|");
        beside.micros.forEach((what, sides) -> {
            double ours = median(sides.get("hedgerow"));
            double theirs = median(sides.get("rocksdb"));
            System.out.printf("| %s | %.2f | %.2f | %.1f |%n", what, ours, theirs, theirs / ours);
        });
        if (arguments.length > 2) {
            Files.write(Path.of(arguments[2]), beside.rows);
        }
    }
}
