package io.hedgerow;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Locale;

/**
 * Loads the native library, once: from the path in the system property {@code
 * hedgerow.native.path}, or out of the jar, from which it is copied to a temporary file.
 */
final class NativeLibrary {
    private static final String PATH = "hedgerow.native.path";

    static {
        String path = System.getProperty(PATH);
        if (path != null) {
            System.load(Path.of(path).toAbsolutePath().toString());
        } else {
            loadFromJar("/native/" + platform() + "/" + System.mapLibraryName("hedgerow_jni"));
        }
    }

    private NativeLibrary() {}

    /** Loads the library if it is not loaded yet. */
    static void load() {}

    private static void loadFromJar(String resource) {
        try (InputStream library = NativeLibrary.class.getResourceAsStream(resource)) {
            if (library == null) {
                throw new UnsatisfiedLinkError(
                        "expected a library for this platform in the jar, found no "
                                + resource
                                + "; name one by -D"
                                + PATH);
            }
            Path copy = Files.createTempFile("hedgerow", resource.substring(resource.lastIndexOf('.')));
            try {
                Files.copy(library, copy, StandardCopyOption.REPLACE_EXISTING);
                System.load(copy.toString());
            } finally {
                // A loaded library needs its file no longer, where the system allows to delete it.
                copy.toFile().deleteOnExit();
                copy.toFile().delete();
            }
        } catch (IOException e) {
            throw new UncheckedIOException("cannot copy " + resource + " out of the jar", e);
        }
    }

    /** The platform as {@code linux-x86_64}. */
    static String platform() {
        String os = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        String arch = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
        String system = os.startsWith("mac") ? "macos" : os.startsWith("windows") ? "windows" : os;
        switch (arch) {
            case "amd64":
            case "x86-64":
                return system + "-x86_64";
            case "arm64":
                return system + "-aarch64";
            default:
                return system + "-" + arch;
        }
    }
}
