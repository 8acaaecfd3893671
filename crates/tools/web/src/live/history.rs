//! History of the resource usage: a ring of points.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;

use super::figures::{Figures, NodeFigures};

/// Limit of points.
const MOST_POINTS: usize = 300;

/// Limit of pod figures in all points: with many pods the history is shorter.
const MOST_FIGURES: usize = 60_000;

/// Size limit of the history in one message.
const LARGEST: usize = 4 << 20;

/// Resource usage at one moment.
#[derive(Debug, Clone)]
pub(super) struct Point {
    /// Milliseconds since the epoch.
    pub(super) time: f64,
    pub(super) node: NodeFigures,
    pub(super) pods: Vec<(Arc<str>, Figures)>,
}

/// The points, oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    points: VecDeque<Point>,
    figures: usize,
}

impl History {
    pub(super) fn add(&mut self, point: Point) {
        self.figures += point.pods.len();
        self.points.push_back(point);
        while self.points.len() > MOST_POINTS
            || (self.figures > MOST_FIGURES && self.points.len() > 1)
        {
            if let Some(oldest) = self.points.pop_front() {
                self.figures -= oldest.pods.len();
            }
        }
    }

    /// Formats the newest points, up to the size limit.
    pub(super) fn to_json(&self) -> String {
        let mut told = VecDeque::new();
        let mut size = 0;
        for point in self.points.iter().rev() {
            let text = point.to_json();
            size += text.len() + 1;
            if size > LARGEST {
                break;
            }
            told.push_front(text);
        }
        let told: Vec<String> = told.into();
        format!("{{\"points\":[{}]}}", told.join(","))
    }
}

impl Point {
    pub(super) fn to_json(&self) -> String {
        let mut text = format!("{{\"time\":{},\"node\":", self.time);
        self.node.write(&mut text);
        text.push_str(",\"pods\":{");
        for (i, (id, figures)) in self.pods.iter().enumerate() {
            if i > 0 {
                text.push(',');
            }
            let id = serde_json::Value::from(&**id);
            let _ = write!(text, "{id}:");
            figures.write(&mut text);
        }
        text.push_str("}}");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(time: f64, pods: usize) -> Point {
        Point {
            time,
            node: NodeFigures::default(),
            pods: (0..pods)
                .map(|i| (format!("{i:064}").into(), Figures::default()))
                .collect(),
        }
    }

    #[test]
    fn a_ring_of_points_is_kept_and_of_crowds_less() {
        let mut history = History::default();
        for i in 0..400 {
            history.add(point(f64::from(i), 2));
        }
        assert_eq!(history.points.len(), MOST_POINTS);
        assert_eq!(history.points[0].time as u64, 100);
        for i in 0..30 {
            history.add(point(f64::from(i), 5000));
        }
        assert_eq!(history.points.len(), MOST_FIGURES / 5000);
        let told = history.to_json();
        assert!(told.len() <= LARGEST + 100, "{}", told.len());
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        let points = told["points"].as_array().unwrap();
        assert_eq!(points.last().unwrap()["time"], 29.0);
        assert!(points[0]["time"].as_f64() < points[1]["time"].as_f64());
    }

    #[test]
    fn a_hostile_id_stays_a_string() {
        let id: Arc<str> = "\"}],<script>\u{1}".into();
        let mut point = point(1.0, 0);
        point.pods.push((Arc::clone(&id), Figures::default()));
        let told: serde_json::Value = serde_json::from_str(&point.to_json()).unwrap();
        let nothing = serde_json::json!([null, null, null, null]);
        assert_eq!(told["pods"][&*id], nothing);
    }
}
