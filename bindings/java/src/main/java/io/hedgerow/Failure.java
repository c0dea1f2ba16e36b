package io.hedgerow;

import java.nio.charset.StandardCharsets;

/** Failures of native calls as exceptions. */
final class Failure {
    private Failure() {}

    /** Called by native code to make the exception of a failure pending. */
    static void raise(int kind, byte[] message, byte[] keyspace, byte[] key) {
        throw of(kind, message, keyspace, key);
    }

    /** The exception of a failure. The numbers of kinds are those of the native library. */
    static RuntimeException of(int kind, byte[] utf8, byte[] keyspaceUtf8, byte[] key) {
        String message = new String(utf8, StandardCharsets.UTF_8);
        String keyspace = keyspaceUtf8 == null ? null : Keyspace.text(keyspaceUtf8);
        switch (kind) {
            case 1:
                return new IllegalArgumentException(message);
            case 2:
                return new UnsupportedOperationException(message);
            case 3:
                return new LockedException(message);
            case 4:
                return new StorageException(message);
            case 5:
                return new NoSpaceException(message);
            case 6:
                return new CorruptionException(message, keyspace);
            case 8:
                return new ConflictException(message, keyspace, Bytes.wrap(key));
            case 10:
                return new IllegalStateException(message);
            case 11:
                return new CancelledException(message);
            default:
                // A newer format, a poisoned log, a full queue, a merge operator; a defect.
                return new HedgerowException(message);
        }
    }
}
