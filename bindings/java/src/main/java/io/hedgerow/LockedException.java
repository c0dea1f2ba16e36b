package io.hedgerow;

/** Another process, or another part of this one, has the database open for writing. */
public class LockedException extends HedgerowException {
    private static final long serialVersionUID = 1;

    LockedException(String message) {
        super(message);
    }
}
