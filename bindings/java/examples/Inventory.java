import io.hedgerow.Bytes;
import io.hedgerow.ConflictException;
import io.hedgerow.EntryIterator;
import io.hedgerow.Hedgerow;
import io.hedgerow.KeyRange;
import io.hedgerow.Keyspace;
import io.hedgerow.Options;
import io.hedgerow.Snapshot;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Map;
import java.util.concurrent.ConcurrentNavigableMap;

/** Keeps an inventory of a directory's files: their sizes by path, and the bytes by extension. */
public final class Inventory {
    private Inventory() {}

    public static void main(String[] arguments) throws IOException {
        Path root = Path.of(arguments.length > 0 ? arguments[0] : "/usr/share");
        Path data = Files.createTempDirectory("inventory");
        try (Hedgerow db = Hedgerow.open(data, new Options().memoryBudget(64 << 20))) {
            Keyspace sizes = db.keyspace("sizes");
            Keyspace extensions = db.keyspace("extensions", "merge:add_i64");
            fill(db, sizes, extensions, root);
            System.out.printf("%d files under %s%n", sizes.count(KeyRange.all()), root);
            largest(extensions);
            moments(db, sizes, root);
            map(sizes);
            transaction(db, sizes);
        }
        Hedgerow.destroy(data);
        Files.deleteIfExists(data);
    }

    /** Each file is a batch: its size, and an operand that adds to the sum of its extension. */
    private static void fill(Hedgerow db, Keyspace sizes, Keyspace extensions, Path root)
            throws IOException {
        Files.walkFileTree(root, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) {
                String name = file.getFileName().toString();
                String extension = name.substring(name.lastIndexOf('.') + 1);
                db.batch()
                        .put(sizes, utf8(file.toString()), number(attributes.size()))
                        .merge(extensions, utf8(extension), number(attributes.size()))
                        .commit();
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFileFailed(Path file, IOException e) {
                return FileVisitResult.CONTINUE;
            }
        });
    }

    private static void largest(Keyspace extensions) {
        System.out.println("most bytes by extension:");
        extensions.iterate(KeyRange.all()).toList().stream()
                .sorted((a, b) -> Long.compare(number(b.value()), number(a.value())))
                .limit(5)
                .forEach(it -> System.out.printf("  %,15d %s%n", number(it.value()), text(it.key())));
    }

    /** A snapshot reads the state of its moment, whatever is deleted after. */
    private static void moments(Hedgerow db, Keyspace sizes, Path root) {
        try (Snapshot before = db.snapshot()) {
            sizes.deletePrefix(utf8(root.resolve("doc") + "/"));
            System.out.printf(
                    "%d files now, %d in the snapshot%n",
                    sizes.count(KeyRange.all()), before.view(sizes).count(KeyRange.all()));
        }
        try (EntryIterator last = sizes.iterate(KeyRange.all().reversed())) {
            if (last.hasNext()) {
                System.out.println("the last one: " + text(last.next().key()));
            }
        }
    }

    /** A keyspace is a navigable map, too. */
    private static void map(Keyspace sizes) {
        ConcurrentNavigableMap<Bytes, Bytes> map = sizes.asMap();
        Map.Entry<Bytes, Bytes> entry = map.ceilingEntry(Bytes.utf8("/usr/share/m"));
        System.out.println("the first one from /usr/share/m: " + (entry == null ? "none" : entry.getKey()));
    }

    /** Repeated until nobody comes first. */
    private static void transaction(Hedgerow db, Keyspace sizes) {
        try {
            long sum = db.transact(transaction -> {
                long[] bytes = {0};
                transaction.view(sizes).iterate(KeyRange.all())
                        .forEachRemaining(it -> bytes[0] += number(it.value()));
                transaction.put(sizes, utf8("sum"), number(bytes[0]));
                return bytes[0];
            });
            System.out.printf("%,d bytes in all%n", sum);
        } catch (ConflictException e) {
            System.out.println("others are always first: " + e.key());
        }
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] utf8) {
        return new String(utf8, StandardCharsets.UTF_8);
    }

    private static byte[] number(long number) {
        byte[] bytes = new byte[Long.BYTES];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) (number >> (8 * i));
        }
        return bytes;
    }

    private static long number(byte[] bytes) {
        long number = 0;
        for (int i = 0; i < bytes.length; i++) {
            number |= (bytes[i] & 0xffL) << (8 * i);
        }
        return number;
    }
}
