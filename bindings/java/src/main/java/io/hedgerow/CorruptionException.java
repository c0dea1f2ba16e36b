package io.hedgerow;

/** Bytes on disk differ from the bytes written. The message names the file. */
public class CorruptionException extends HedgerowException {
    private static final long serialVersionUID = 1;

    CorruptionException(String message) {
        super(message);
    }
}
