# On Linux with an x86-64 processor: the static program of the release. Elsewhere: built from source with cargo.
class Toolgate < Formula
  desc "@SUMMARY@"
  homepage "@RELEASE_URL@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  if OS.linux? && Hardware::CPU.intel?
    url "@RELEASE_URL@/@TARBALL@"
    sha256 "@TARBALL_SHA256@"
  else
    url "@RELEASE_URL@/@SOURCE@"
    sha256 "@SOURCE_SHA256@"
    depends_on "rust" => :build
  end

  def install
    if File.exist? "bin/toolgate"
      bin.install "bin/toolgate"
    else
      system "cargo", "install", *std_cargo_args(path: "crates/toolgate-cli")
    end
    system bin/"toolgate", "man", man1
    generate_completions_from_executable(bin/"toolgate", "completions")
  end

  service do
    run [opt_bin/"toolgate", "serve", etc/"toolgate/toolgate.toml"]
    keep_alive crashed: true
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/toolgate --version")
  end
end
