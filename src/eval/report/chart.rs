//! Charts as SVG text, styled by the page around them.

use std::fmt::Write as _;

/// One line of a chart.
pub(super) struct Series {
    pub name: String,
    /// x, y and what is said of the point.
    pub points: Vec<(f64, f64, String)>,
}

/// A chart of lines over a linear or logarithmic x axis; y is a share in [0, 1].
pub(super) struct Lines<'a> {
    /// Says what the chart shows, for those who cannot see it.
    pub label: &'a str,
    pub x: &'a str,
    pub y: &'a str,
    pub log: bool,
    pub series: Vec<Series>,
    /// A vertical mark with its caption.
    pub mark: Option<(f64, String)>,
}

/// A mean with its interval.
pub(super) struct Dot {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

/// Rows of dots with intervals, one dot a series.
pub(super) struct Dots<'a> {
    pub label: &'a str,
    pub x: &'a str,
    pub series: Vec<String>,
    pub rows: Vec<(String, Vec<Dot>)>,
}

const WIDTH: f64 = 720.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 44.0;
/// Series that can be told apart by colour, dash and marker.
const STYLES: usize = 8;

impl Lines<'_> {
    pub(super) fn svg(&self) -> String {
        let height = 340.0;
        let xs = self.series.iter().flat_map(|s| s.points.iter().map(|p| p.0));
        let xs = xs.chain(self.mark.iter().map(|mark| mark.0)).filter(|x| !self.log || *x > 0.0);
        let (mut low, mut high) = xs.fold((f64::MAX, f64::MIN), |(l, h), x| (l.min(x), h.max(x)));
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if high - low < 1e-9 {
            (low, high) = (low * 0.5, high * 1.5 + 1e-6);
        }
        let scale = |x: f64| if self.log { x.max(low).ln() } else { x };
        let place_x = |x: f64| {
            LEFT + (scale(x) - scale(low)) / (scale(high) - scale(low)) * (WIDTH - LEFT - RIGHT)
        };
        let place_y = |y: f64| height - BOTTOM - y * (height - BOTTOM - TOP);
        let mut out = open(self.label, height);
        for step in 0..=5 {
            let y = f64::from(step) / 5.0;
            let at = place_y(y);
            let _ = write!(
                out,
                "<line class=grid x1={LEFT} x2={:.1} y1={at:.1} y2={at:.1} />\
                 <text class=tick x={:.1} y={:.1} text-anchor=end>{y:.1}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                at + 4.0
            );
        }
        for x in ticks(low, high, self.log) {
            let at = place_x(x);
            let _ = write!(
                out,
                "<line class=grid x1={at:.1} x2={at:.1} y1={TOP} y2={:.1} />\
                 <text class=tick x={at:.1} y={:.1} text-anchor=middle>{}</text>",
                height - BOTTOM,
                height - BOTTOM + 18.0,
                number(x)
            );
        }
        if let Some((x, caption)) = &self.mark {
            let at = place_x(*x);
            let _ = write!(
                out,
                "<line class=mark x1={at:.1} x2={at:.1} y1={TOP} y2={:.1} />\
                 <text class=tick x={:.1} y={:.1} text-anchor=end>{}</text>",
                height - BOTTOM,
                at - 6.0,
                height - BOTTOM - 8.0,
                escape(caption)
            );
        }
        axis_names(&mut out, self.x, self.y, height);
        for (n, series) in self.series.iter().enumerate() {
            let said: Vec<&str> = series.points.iter().map(|point| point.2.as_str()).collect();
            let _ = write!(
                out,
                "<g class=\"series s{}\" tabindex=0 role=img aria-label=\"{}: {}\">",
                n % STYLES,
                escape(&series.name),
                escape(&said.join("; "))
            );
            let path: Vec<String> = series
                .points
                .iter()
                .map(|(x, y, _)| format!("{:.1},{:.1}", place_x(*x), place_y(*y)))
                .collect();
            let _ = write!(out, "<polyline points=\"{}\" />", path.join(" "));
            for (x, y, said) in &series.points {
                let title = format!("<title>{}: {}</title>", escape(&series.name), escape(said));
                out.push_str(&marker(n, place_x(*x), place_y(*y), &title));
            }
            out.push_str("</g>");
        }
        out.push_str("</svg>");
        out + &legend(self.series.iter().map(|series| series.name.as_str()))
    }
}

impl Dots<'_> {
    pub(super) fn svg(&self) -> String {
        const NAMES: f64 = 170.0;
        let row = 12.0 * self.series.len().max(1) as f64 + 10.0;
        let height = TOP + row * self.rows.len() as f64 + BOTTOM;
        let place = |value: f64| NAMES + value.clamp(0.0, 1.0) * (WIDTH - NAMES - RIGHT);
        let mut out = open(self.label, height);
        for step in 0..=5 {
            let value = f64::from(step) / 5.0;
            let at = place(value);
            let _ = write!(
                out,
                "<line class=grid x1={at:.1} x2={at:.1} y1={TOP} y2={:.1} />\
                 <text class=tick x={at:.1} y={:.1} text-anchor=middle>{value:.1}</text>",
                height - BOTTOM,
                height - BOTTOM + 18.0
            );
        }
        let _ = write!(
            out,
            "<text class=axis x={:.1} y={:.1} text-anchor=middle>{}</text>",
            (NAMES + WIDTH - RIGHT) / 2.0,
            height - 6.0,
            escape(self.x)
        );
        for (n, (name, dots)) in self.rows.iter().enumerate() {
            let top = TOP + row * n as f64;
            let said: Vec<String> = self
                .series
                .iter()
                .zip(dots)
                .map(|(series, dot)| {
                    format!("{series} {:.3}, {:.3} to {:.3}", dot.mean, dot.low, dot.high)
                })
                .collect();
            let _ = write!(
                out,
                "<g class=series tabindex=0 role=img aria-label=\"{}: {}\">\
                 <text class=tick x={:.1} y={:.1} text-anchor=end>{}</text>",
                escape(name),
                escape(&said.join("; ")),
                NAMES - 10.0,
                top + row / 2.0 + 1.0,
                escape(name)
            );
            for (s, (dot, said)) in dots.iter().zip(&said).enumerate() {
                let y = top + 10.0 + 12.0 * s as f64;
                let _ = write!(
                    out,
                    "<g class=s{}><line class=whisker x1={:.1} x2={:.1} y1={y:.1} y2={y:.1} />{}</g>",
                    s % STYLES,
                    place(dot.low),
                    place(dot.high),
                    marker(s, place(dot.mean), y, &format!("<title>{}</title>", escape(said)))
                );
            }
            out.push_str("</g>");
        }
        out.push_str("</svg>");
        out + &legend(self.series.iter().map(String::as_str))
    }
}

fn open(label: &str, height: f64) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=group aria-label=\"{}\">", escape(label))
}

fn axis_names(out: &mut String, x: &str, y: &str, height: f64) {
    let _ = write!(
        out,
        "<text class=axis x={:.1} y={:.1} text-anchor=middle>{}</text>\
         <text class=axis transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=middle>{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        height - 6.0,
        escape(x),
        (TOP + height - BOTTOM) / 2.0,
        escape(y)
    );
}

/// A shape of its own for each series, so that colour is not all that tells them apart.
fn marker(series: usize, x: f64, y: f64, title: &str) -> String {
    match series % 4 {
        0 => format!("<circle cx={x:.1} cy={y:.1} r=4>{title}</circle>"),
        1 => format!("<rect x={:.1} y={:.1} width=7.4 height=7.4>{title}</rect>", x - 3.7, y - 3.7),
        2 => format!("<path d=\"M{x:.1} {:.1}l4.8 8.4h-9.6z\">{title}</path>", y - 5.2),
        _ => format!("<path d=\"M{x:.1} {:.1}l5 5l-5 5l-5-5z\">{title}</path>", y - 5.0),
    }
}

fn legend<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut out = String::from("<ul class=legend>");
    for (n, name) in names.enumerate() {
        let _ = write!(
            out,
            "<li class=s{}><svg viewBox=\"0 0 30 14\" aria-hidden=true>\
             <polyline points=\"2,7 28,7\" />{}</svg>{}</li>",
            n % STYLES,
            marker(n, 15.0, 7.0, ""),
            escape(name)
        );
    }
    out + "</ul>"
}

/// Round numbers between `low` and `high`.
fn ticks(low: f64, high: f64, log: bool) -> Vec<f64> {
    let mut out = Vec::new();
    if log {
        let mut decade = 10_f64.powf(low.log10().floor());
        while decade <= high {
            let steps: &[f64] = if high / low > 300.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            out.extend(steps.iter().map(|step| step * decade).filter(|x| (low..=high).contains(x)));
            decade *= 10.0;
        }
        return out;
    }
    let rough = (high - low) / 6.0;
    let unit = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * unit).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(unit);
    let mut n = (low / step).ceil();
    while n * step <= high + step * 1e-6 {
        out.push(n * step);
        n += 1.0;
    }
    out
}

fn number(value: f64) -> String {
    if value >= 1_000.0 {
        let thousands = value / 1_000.0;
        return if thousands.fract() < 0.05 {
            format!("{thousands:.0}k")
        } else {
            format!("{thousands:.1}k")
        };
    }
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
