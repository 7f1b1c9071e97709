//! What the process has taken.

/// The most resident memory that this process has had, in MiB; `None` where the system does not say.
///
/// Read from `/proc/self/status` (`VmHWM`), which only Linux has.
pub fn peak_rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((kib / 1024.0 * 10.0).round() / 10.0)
}
