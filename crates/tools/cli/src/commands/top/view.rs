//! State of the view, and how keys change it.

use super::keys::Key;
use super::sample::{Node, Usage};

/// Actions of a key that the view cannot do itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    Nothing,
    Quit,
    /// Take a sample at once.
    Look,
    Faster,
    Slower,
    /// Show the log of this container or pod.
    Logs(String),
    /// Run a shell in this container.
    Exec(String),
}

/// Column to sort by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Column {
    Name,
    Cpu,
    Memory,
    /// Bytes received and sent.
    Network,
    /// Bytes read and written.
    Io,
    Age,
}

/// The state of the view.
#[derive(Debug)]
pub(super) struct View {
    pub(super) node: Node,
    pub(super) sort: Column,
    pub(super) reversed: bool,
    /// Group containers by pod.
    pub(super) by_pod: bool,
    /// Also show those that do not run.
    pub(super) all: bool,
    pub(super) filter: String,
    /// Whether the filter is being typed.
    pub(super) typing: bool,
    pub(super) paused: bool,
    pub(super) help: bool,
    /// Reason why the data is outdated.
    pub(super) trouble: Option<String>,
    /// Hint about an unavailable action, until the next key.
    pub(super) hint: Option<&'static str>,
    selected: Option<String>,
    /// First row on the screen, chosen so that the selected row is visible.
    pub(super) first: usize,
    page: usize,
}

/// One line of the view.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) container: String,
    /// Whether it is ready or running.
    pub(super) alive: bool,
    pub(super) created_at: i64,
    pub(super) usage: Usage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Pod,
    Container,
}

impl View {
    pub(super) fn new(sort: Column, by_pod: bool, filter: Option<String>) -> Self {
        Self {
            node: Node::default(),
            sort,
            reversed: false,
            by_pod,
            all: false,
            filter: filter.unwrap_or_default(),
            typing: false,
            paused: false,
            help: false,
            trouble: None,
            hint: None,
            selected: None,
            first: 0,
            page: 10,
        }
    }

    /// Takes a new sample.
    pub(super) fn take(&mut self, node: Node) {
        self.node = node;
        self.trouble = None;
    }

    /// Returns the sorted rows.
    pub(super) fn rows(&self) -> Vec<Row> {
        let wanted = self.filter.to_lowercase();
        let fits = |texts: [&str; 3]| {
            wanted.is_empty()
                || texts
                    .iter()
                    .any(|text| text.to_lowercase().contains(&wanted))
        };
        let mut groups: Vec<Vec<Row>> = Vec::new();
        for pod in &self.node.pods {
            let whole = fits([&pod.namespace, &pod.name, ""]);
            let mut rows: Vec<Row> = pod
                .containers
                .iter()
                .filter(|one| self.all || one.running)
                .filter(|one| whole || fits([&one.name, "", ""]))
                .map(|one| Row {
                    id: one.id.clone(),
                    kind: Kind::Container,
                    namespace: pod.namespace.clone(),
                    pod: pod.name.clone(),
                    container: one.name.clone(),
                    alive: one.running,
                    created_at: one.created_at,
                    usage: one.usage.clone(),
                })
                .collect();
            self.order(&mut rows);
            if !self.by_pod {
                groups.extend(rows.into_iter().map(|row| vec![row]));
            } else if (whole || !rows.is_empty()) && (self.all || pod.ready || !rows.is_empty()) {
                let head = Row {
                    id: pod.id.clone(),
                    kind: Kind::Pod,
                    namespace: pod.namespace.clone(),
                    pod: pod.name.clone(),
                    container: String::new(),
                    alive: pod.ready,
                    created_at: pod.created_at,
                    usage: pod.usage.clone(),
                };
                rows.insert(0, head);
                groups.push(rows);
            }
        }
        groups.sort_by(|a, b| self.compare(&a[0], &b[0]));
        groups.into_iter().flatten().collect()
    }

    fn order(&self, rows: &mut [Row]) {
        rows.sort_by(|a, b| self.compare(a, b));
    }

    /// Sorts numbers descending, names ascending, and the youngest first.
    fn compare(&self, a: &Row, b: &Row) -> std::cmp::Ordering {
        let by_name = || {
            let key = |row: &Row| {
                (
                    row.namespace.clone(),
                    row.pod.clone(),
                    row.container.clone(),
                )
            };
            key(a).cmp(&key(b))
        };
        let value = |row: &Row| {
            let usage = &row.usage;
            match self.sort {
                Column::Cpu => usage.cpu.unwrap_or(-1.0),
                Column::Memory => usage.memory.map_or(-1.0, |memory| memory as f64),
                Column::Network => usage.received.unwrap_or(0.0) + usage.sent.unwrap_or(0.0),
                Column::Io => usage.read.unwrap_or(0.0) + usage.written.unwrap_or(0.0),
                Column::Age => row.created_at as f64,
                Column::Name => 0.0,
            }
        };
        let order = value(b).total_cmp(&value(a)).then_with(by_name);
        if self.reversed {
            order.reverse()
        } else {
            order
        }
    }

    /// Returns the selected row and the first row of a screen with `room` rows.
    pub(super) fn place(&mut self, rows: &[Row], room: usize) -> usize {
        self.page = room.max(1);
        let at = self
            .selected
            .as_ref()
            .and_then(|id| rows.iter().position(|row| row.id == *id))
            .unwrap_or(0);
        self.selected = rows.get(at).map(|row| row.id.clone());
        if at < self.first {
            self.first = at;
        } else if at >= self.first + self.page {
            self.first = at + 1 - self.page;
        }
        self.first = self.first.min(rows.len().saturating_sub(self.page));
        at
    }

    /// Handles a key.
    pub(super) fn press(&mut self, key: Key) -> Act {
        self.hint = None;
        if key == Key::Interrupt {
            return Act::Quit;
        }
        if self.typing {
            self.type_filter(key);
            return Act::Nothing;
        }
        if self.help {
            self.help = false;
            return Act::Nothing;
        }
        match key {
            Key::Char('q') => return Act::Quit,
            // The first Escape clears the filter.
            Key::Escape if self.filter.is_empty() => return Act::Quit,
            Key::Escape => self.filter.clear(),
            Key::Char('?' | 'h') => self.help = true,
            Key::Char('/') => self.typing = true,
            Key::Char('c') => self.by(Column::Cpu),
            Key::Char('m') => self.by(Column::Memory),
            Key::Char('n') => self.by(Column::Network),
            Key::Char('i') => self.by(Column::Io),
            Key::Char('t') => self.by(Column::Age),
            Key::Char('N') => self.by(Column::Name),
            Key::Char('r') => self.reversed = !self.reversed,
            Key::Char('p') => self.by_pod = !self.by_pod,
            Key::Char('a') => self.all = !self.all,
            Key::Char(' ') => {
                self.paused = !self.paused;
                if !self.paused {
                    return Act::Look;
                }
            }
            Key::Char('+') => return Act::Faster,
            Key::Char('-') => return Act::Slower,
            Key::Up | Key::Char('k') => self.go(-1),
            Key::Down | Key::Char('j') => self.go(1),
            Key::PageUp => self.go(-self.page.cast_signed()),
            Key::PageDown => self.go(self.page.cast_signed()),
            Key::Home | Key::Char('g') => self.go(isize::MIN),
            Key::End | Key::Char('G') => self.go(isize::MAX),
            Key::Char('l') | Key::Enter => return self.logs(),
            Key::Char('e' | 's') => return self.exec(),
            Key::Char(_) | Key::Backspace | Key::Interrupt => {}
        }
        Act::Nothing
    }

    fn type_filter(&mut self, key: Key) {
        match key {
            Key::Char(c) => self.filter.push(c),
            Key::Backspace => drop(self.filter.pop()),
            Key::Enter => self.typing = false,
            Key::Escape => {
                self.typing = false;
                self.filter.clear();
            }
            _ => {}
        }
    }

    /// Sorts by a column; the same key again reverses the order.
    fn by(&mut self, column: Column) {
        self.reversed = self.sort == column && !self.reversed;
        self.sort = column;
    }

    fn go(&mut self, steps: isize) {
        let rows = self.rows();
        let at = self
            .selected
            .as_ref()
            .and_then(|id| rows.iter().position(|row| row.id == *id))
            .unwrap_or(0);
        let last = rows.len().saturating_sub(1);
        let at = at.saturating_add_signed(steps).min(last);
        self.selected = rows.get(at).map(|row| row.id.clone());
    }

    fn selected(&self) -> Option<Row> {
        let rows = self.rows();
        let chosen = self.selected.as_ref();
        let found = rows.iter().find(|row| Some(&row.id) == chosen);
        found.or(rows.first()).cloned()
    }

    fn logs(&mut self) -> Act {
        self.selected()
            .map_or(Act::Nothing, |row| Act::Logs(row.id))
    }

    fn exec(&mut self) -> Act {
        match self.selected() {
            Some(row) if row.kind == Kind::Container && row.alive => Act::Exec(row.id),
            Some(_) => {
                self.hint = Some("a shell needs a running container; select one");
                Act::Nothing
            }
            None => Act::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{One, Pod};
    use super::*;

    fn one(name: &str, cpu: f64, memory: u64) -> One {
        One {
            id: format!("id-{name}"),
            name: name.into(),
            running: true,
            usage: Usage {
                cpu: Some(cpu),
                memory: Some(memory),
                ..Usage::default()
            },
            ..One::default()
        }
    }

    fn view() -> View {
        let pod = |name: &str, cpu: f64, containers: Vec<One>| Pod {
            id: format!("id-{name}"),
            name: name.into(),
            namespace: "shop".into(),
            ready: true,
            usage: Usage {
                cpu: Some(cpu),
                ..Usage::default()
            },
            containers,
            ..Pod::default()
        };
        let mut view = View::new(Column::Cpu, true, None);
        view.take(Node {
            pods: vec![
                pod("web", 5.0, vec![one("main", 1.0, 30), one("side", 4.0, 10)]),
                pod("db", 9.0, vec![one("postgres", 9.0, 20)]),
            ],
            images: Vec::new(),
        });
        view
    }

    fn ids(view: &View) -> Vec<String> {
        view.rows()
            .into_iter()
            .map(|row| row.id[3..].to_owned())
            .collect()
    }

    #[test]
    fn containers_stand_below_their_pods_or_by_themselves() {
        let mut view = view();
        assert_eq!(ids(&view), ["db", "postgres", "web", "side", "main"]);
        view.press(Key::Char('p'));
        assert_eq!(ids(&view), ["postgres", "side", "main"]);
        view.press(Key::Char('m'));
        assert_eq!(ids(&view), ["main", "postgres", "side"]);
        view.press(Key::Char('m'));
        assert_eq!(
            ids(&view),
            ["side", "postgres", "main"],
            "twice: the other way round"
        );
        view.press(Key::Char('N'));
        assert_eq!(ids(&view), ["postgres", "main", "side"]);
    }

    #[test]
    fn the_filter_is_typed_and_left() {
        let mut view = view();
        for key in "/post".chars() {
            view.press(Key::Char(key));
        }
        assert_eq!(ids(&view), ["db", "postgres"]);
        view.press(Key::Enter);
        assert_eq!(view.press(Key::Escape), Act::Nothing);
        assert_eq!(ids(&view).len(), 5);
        assert_eq!(view.press(Key::Escape), Act::Quit);
    }

    #[test]
    fn keys_act_on_what_is_selected_also_when_the_order_changes() {
        let mut view = view();
        view.press(Key::Down);
        assert_eq!(view.press(Key::Char('e')), Act::Exec("id-postgres".into()));
        view.press(Key::Char('N'));
        assert_eq!(view.press(Key::Enter), Act::Logs("id-postgres".into()));
        view.press(Key::Home);
        assert_eq!(
            view.press(Key::Char('e')),
            Act::Nothing,
            "a pod has no shell"
        );
        assert!(view.hint.is_some());
        view.press(Key::End);
        assert_eq!(view.press(Key::Char('l')), Act::Logs("id-side".into()));
    }

    #[test]
    fn the_selected_row_stays_on_the_screen() {
        let mut view = view();
        view.press(Key::End);
        let rows = view.rows();
        assert_eq!(view.place(&rows, 2), 4);
        assert_eq!(view.first, 3);
        view.press(Key::Home);
        assert_eq!(view.place(&rows, 2), 0);
        assert_eq!(view.first, 0);
    }
}
