package io.hedgerow;

/** The disk is full. Reads keep working, and writes resume by themselves when there is room. */
public class NoSpaceException extends StorageException {
    private static final long serialVersionUID = 1;

    NoSpaceException(String message) {
        super(message);
    }
}
