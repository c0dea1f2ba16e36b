package io.hedgerow.kafka.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * A control group, of version 1 or 2, whose processes have a limit of memory together, page cache
 * and all. Removed when closed; whoever was in it must have ended by then.
 */
final class Group implements AutoCloseable {
    private final Path dir;

    private Group(Path dir) {
        this.dir = dir;
    }

    static Group create(long bytes) throws IOException {
        String name = "hedgerow-bench-" + ProcessHandle.current().pid();
        for (String mount : Files.readAllLines(Path.of("/proc/self/mounts"))) {
            String[] words = mount.split(" ");
            Path at = Path.of(words[1]);
            if (words[2].equals("cgroup") && List.of(words[3].split(",")).contains("memory")) {
                Group group = new Group(Files.createDirectories(at.resolve(name)));
                group.write("memory.limit_in_bytes", bytes);
                return group;
            }
            Path controllers = at.resolve("cgroup.controllers");
            if (words[2].equals("cgroup2") && Files.readString(controllers).contains("memory")) {
                Files.writeString(at.resolve("cgroup.subtree_control"), "+memory");
                Group group = new Group(Files.createDirectories(at.resolve(name)));
                group.write("memory.max", bytes);
                group.write("memory.swap.max", 0);
                return group;
            }
        }
        throw new IOException("expected control groups that limit memory, found none mounted");
    }

    private void write(String file, long value) throws IOException {
        Files.writeString(dir.resolve(file), String.valueOf(value));
    }

    /** Makes a command run in the group. */
    void enter(ProcessBuilder command) {
        List<String> words = command.command();
        words.addAll(
                0,
                List.of("sh", "-c", "echo $$ >\"$0\" && exec \"$@\"", dir.resolve("cgroup.procs").toString()));
    }

    @Override
    public void close() throws IOException {
        Files.delete(dir);
    }
}
