package io.hedgerow;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * A directory of backups. Each is whole, and shares with others the files that they have in common.
 * Long calls tell their progress and can be cancelled.
 */
public final class Backups {
    private static final long NEWEST = 0;

    private final Path dir;
    private final byte[] path;

    /** The backups in a directory, which the first one creates. */
    public Backups(Path dir) {
        Ref.objects();
        this.dir = dir;
        path = Hedgerow.path(dir);
    }

    /** Backs a database up as it is now, while it is in use. */
    public Call<Backup> create(Hedgerow db) {
        return create(db, 0);
    }

    /** Backs a database up, at most these bytes per second. */
    public Call<Backup> create(Hedgerow db, long bytesPerSecond) {
        return Calls.start(
                id -> create0(id, path, db.ref.get(), bytesPerSecond), Backups::decode, null);
    }

    /** All backups, the oldest first. */
    public List<Backup> list() {
        List<Backup> backups = new ArrayList<>();
        for (Unpacker packed = new Unpacker(list0(path)); packed.hasNext(); ) {
            backups.add(new Backup(packed));
        }
        return backups;
    }

    /** Checks the newest backup: every byte of its files. */
    public Call<Backup> verify() {
        return verify(NEWEST);
    }

    /** Checks a backup. */
    public Call<Backup> verify(long backup) {
        return Calls.start(id -> verify0(id, path, backup), Backups::decode, null);
    }

    /** Restores the newest backup to a new directory. */
    public Call<Backup> restore(Path to) {
        return restore(NEWEST, to);
    }

    /** Restores a backup to a new directory. */
    public Call<Backup> restore(long backup, Path to) {
        return Calls.start(
                id -> restore0(id, path, backup, Hedgerow.path(to)), Backups::decode, null);
    }

    /** Removes all backups but the newest ones. Returns the number of removed ones. */
    public long prune(int keep) {
        byte[] removed = Calls.start(id -> prune0(id, path, keep), answer -> answer, null).await();
        return new Unpacker(removed).nextLong();
    }

    private static Backup decode(byte[] answer) {
        return new Backup(new Unpacker(answer));
    }

    @Override
    public String toString() {
        return "Backups(" + dir + ")";
    }

    private native void create0(long id, byte[] repository, long db, long bytesPerSecond);

    private native byte[] list0(byte[] repository);

    private native void verify0(long id, byte[] repository, long backup);

    private native void restore0(long id, byte[] repository, long backup, byte[] dir);

    private native void prune0(long id, byte[] repository, int keep);
}
