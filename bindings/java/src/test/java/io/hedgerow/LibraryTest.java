package io.hedgerow;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletionException;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The search of the native library, and the ends of processes: each in a Java machine of its own.
 */
class LibraryTest {
    private static final Path HOME = Path.of(System.getProperty("java.home"));

    @TempDir Path dir;

    /** Runs {@link Child}; returns what it printed. */
    private String run(int exit, String kind, String... options) throws Exception {
        return run(HOME, exit, kind, options);
    }

    private String run(Path home, int exit, String kind, String... options) throws Exception {
        List<String> command = new ArrayList<>();
        command.add(home.resolve("bin/java").toString());
        command.add("-Djava.io.tmpdir=" + Files.createDirectories(dir.resolve("tmp")));
        command.addAll(List.of(options));
        command.addAll(List.of("-cp", System.getProperty("java.class.path")));
        command.addAll(List.of(Child.class.getName(), kind, dir.resolve("db").toString()));
        Path output = dir.resolve("output");
        Process child =
                new ProcessBuilder(command)
                        .redirectErrorStream(true)
                        .redirectOutput(output.toFile())
                        .start();
        int ended = child.waitFor();
        String printed = Files.readString(output);
        assertEquals(exit, ended, printed);
        return printed;
    }

    @Test
    void theLibraryOfTheJarLeavesNoFile() throws Exception {
        assertTrue(run(0, "put").contains("found: 1"));
        try (Stream<Path> files = Files.list(dir.resolve("tmp"))) {
            assertEquals(0, files.filter(it -> it.getFileName().toString().startsWith("hedgerow")).count());
        }
    }

    /** Each Java machine of this one looks at the calls into it, and prints what is wrong. */
    @Test
    void noJavaMachineFindsAnythingWrong() throws Exception {
        Set<Path> homes = new TreeSet<>(List.of(HOME.toRealPath()));
        Path installed = Path.of("/usr/lib/jvm");
        if (Files.isDirectory(installed)) {
            try (Stream<Path> found = Files.list(installed)) {
                for (Path home : (Iterable<Path>) found::iterator) {
                    if (Files.isExecutable(home.resolve("bin/java"))) {
                        homes.add(home.toRealPath());
                    }
                }
            }
        }
        for (Path home : homes) {
            String printed = run(home, 0, "calls", "-Xcheck:jni");
            assertTrue(printed.contains("found: 500"), printed);
            assertFalse(printed.contains("in native method"), printed);
        }
        System.out.println("java machines: " + homes);
    }

    @Test
    void aLibraryIsNamedByAProperty() throws Exception {
        Path library = dir.resolve("library.so");
        String name = "/native/" + NativeLibrary.platform() + "/libhedgerow_jni.so";
        try (var resource = NativeLibrary.class.getResourceAsStream(name)) {
            Files.copy(resource, library);
        }
        assertTrue(run(0, "put", "-Dhedgerow.native.path=" + library).contains("found: 1"));
        assertTrue(run(1, "put", "-Dhedgerow.native.path=" + dir).contains("UnsatisfiedLinkError"));
    }

    @Test
    void aPlatformWithoutALibraryIsNamed() throws Exception {
        String printed = run(1, "put", "-Dos.arch=pdp11");
        assertTrue(printed.contains("/native/linux-pdp11/libhedgerow_jni.so"), printed);
        assertTrue(printed.contains("-Dhedgerow.native.path"), printed);
    }

    @Test
    void aDamagedLibraryIsAnError() throws Exception {
        Path damaged = Files.write(dir.resolve("damaged.so"), new byte[100]);
        String printed = run(1, "put", "-Dhedgerow.native.path=" + damaged);
        assertTrue(printed.contains("UnsatisfiedLinkError"), printed);
    }

    @Test
    void aProcessEndsDuringCalls() throws Exception {
        run(0, "exit");
        run(3, "halt");
        assertTrue(run(0, "put").contains("found: 1"));
    }

    @Test
    void anAnswerWithoutMemoryIsAnErrorOfItsCall() throws Exception {
        String printed = run(0, "large", "-Xmx48m");
        assertTrue(printed.contains("large: NoSpaceException"), printed);
        assertTrue(printed.contains("found: 1048576"), printed);
    }

    /** A process of a test. */
    public static final class Child {
        private Child() {}

        public static void main(String[] arguments) throws IOException, InterruptedException {
            Hedgerow db = Hedgerow.open(Path.of(arguments[1]));
            Keyspace keyspace = db.keyspace("k");
            if (arguments[0].equals("put")) {
                keyspace.put(new byte[] {1}, new byte[] {1});
                System.out.println("found: " + keyspace.get(new byte[] {1})[0]);
                db.close();
                return;
            }
            if (arguments[0].equals("calls")) {
                calls(db, keyspace);
                return;
            }
            if (arguments[0].equals("large")) {
                large(db, keyspace);
                return;
            }
            for (int i = 0; i < 4; i++) {
                Thread thread = new Thread(() -> {
                    for (byte n = 0; ; n++) {
                        keyspace.put(new byte[] {n}, new byte[1000]);
                        keyspace.getAsync(new byte[] {n});
                        keyspace.iterate(KeyRange.all()).hasNext();
                    }
                });
                thread.setDaemon(true);
                thread.start();
            }
            Thread.sleep(300);
            if (arguments[0].equals("halt")) {
                Runtime.getRuntime().halt(3);
            }
        }

        /** The answer of the first call has 100 MiB. */
        private static void large(Hedgerow db, Keyspace keyspace) {
            byte[] key = {1};
            keyspace.put(key, new byte[1 << 20]);
            try {
                keyspace.multiGetAsync(Collections.nCopies(100, key)).join();
            } catch (CompletionException e) {
                System.out.println("large: " + e.getCause().getClass().getSimpleName());
            }
            System.out.println("found: " + keyspace.getAsync(key).join().length);
            db.close();
        }

        private static void calls(Hedgerow db, Keyspace keyspace) {
            ByteBuffer buffer = ByteBuffer.allocateDirect(16);
            for (int i = 0; i < 500; i++) {
                byte[] key = {(byte) i, (byte) (i >> 8)};
                keyspace.put(key, new byte[1000]);
                keyspace.get(key);
                keyspace.get(buffer, buffer.duplicate());
                keyspace.getAsync(key).join();
                db.batch().put(keyspace, key, key).commit();
            }
            try {
                keyspace.put(new byte[100_000], null);
            } catch (IllegalArgumentException e) {
                System.out.println("refused");
            }
            db.flush().await();
            System.out.println("found: " + keyspace.count(KeyRange.all()));
            db.close();
        }
    }
}
