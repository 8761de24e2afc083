//! Dashboards as Grafana 10 and later import them.

use serde_json::{Value, json};

use super::{Dashboard, Panel, Section, Target, Unit, View};
use crate::query::Query;

/// Version of the dashboard format, as of Grafana 10.
const SCHEMA_VERSION: u32 = 38;

/// Columns of Grafana's grid.
const COLUMNS: u32 = 24;

/// Where a panel stands, in cells of the grid.
#[derive(Clone, Copy, Debug)]
struct Place {
    x: u32,
    y: u32,
    width: u32,
    height: u32,
}

/// Puts panels side by side, and below each other where a line is full.
#[derive(Debug, Default)]
struct Layout {
    x: u32,
    y: u32,
    line_height: u32,
}

/// One dashboard.
pub(super) fn json(dashboard: &Dashboard) -> Value {
    json!({
        "uid": format!("kvroute-{}", dashboard.name),
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["kvroute"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "annotations": {"list": []},
        "links": [link()],
        "templating": {"list": templating(dashboard)},
        "panels": panels(dashboard),
    })
}

/// To the other dashboards.
fn link() -> Value {
    json!({
        "type": "dashboards",
        "title": "kvroute",
        "tags": ["kvroute"],
        "asDropdown": false,
        "includeVars": true,
        "keepTime": true,
        "targetBlank": false,
        "icon": "external link",
        "tooltip": "",
        "url": "",
    })
}

fn datasource() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

/// The data source, and the variables that narrow the queries. One that narrows nothing here is hidden: it is carried
/// along to the other dashboards.
fn templating(dashboard: &Dashboard) -> Vec<Value> {
    let source = json!({
        "type": "datasource",
        "name": "datasource",
        "label": "Data source",
        "query": "prometheus",
        "regex": "",
        "hide": 0,
        "multi": false,
        "includeAll": false,
        "options": [],
        "refresh": 1,
        "skipUrlSync": false,
        "current": {},
    });
    let narrowing = Dashboard::variables()
        .map(|(name, query, label)| variable(name, &query, label, !dashboard.is_narrowed_by(name)));
    std::iter::once(source).chain(narrowing).collect()
}

fn variable(name: &str, query: &Query, label: &str, is_hidden: bool) -> Value {
    let query = format!("label_values({}, {label})", query.text());
    json!({
        "type": "query",
        "name": name,
        "label": name,
        "datasource": datasource(),
        "definition": query,
        "query": {"query": query, "refId": "values"},
        "regex": "",
        "sort": 1,
        "hide": if is_hidden { 2 } else { 0 },
        "multi": true,
        "includeAll": true,
        "allValue": ".*",
        "options": [],
        "refresh": 2,
        "skipUrlSync": false,
        "current": {"selected": true, "text": ["All"], "value": ["$__all"]},
    })
}

fn panels(dashboard: &Dashboard) -> Vec<Value> {
    let (mut layout, mut made) = (Layout::default(), Vec::new());
    for section in &dashboard.sections {
        let place = layout.heading();
        made.push(heading(section, place));
        for panel in &section.panels {
            let place = layout.place(panel);
            made.push(picture(panel, place));
        }
    }
    for (panel, id) in made.iter_mut().zip(1..) {
        panel["id"] = json!(id);
    }
    made
}

fn heading(section: &Section, place: Place) -> Value {
    json!({
        "id": 0,
        "type": "row",
        "title": section.title,
        "collapsed": false,
        "gridPos": place.json(),
        "panels": [],
    })
}

fn picture(panel: &Panel, place: Place) -> Value {
    let targets = panel.targets.iter().zip('A'..).map(|(target, id)| query(target, id, panel.view));
    json!({
        "id": 0,
        "type": panel.view.plugin(),
        "title": panel.title,
        "description": panel.about,
        "datasource": datasource(),
        "gridPos": place.json(),
        "fieldConfig": {"defaults": defaults(panel), "overrides": []},
        "options": panel.view.options(),
        "targets": targets.collect::<Vec<_>>(),
    })
}

fn query(target: &Target, id: char, view: View) -> Value {
    let is_instant = matches!(view, View::Figures | View::Bars);
    json!({
        "refId": id.to_string(),
        "datasource": datasource(),
        "editorMode": "code",
        "expr": target.query.text(),
        "legendFormat": target.legend,
        "instant": is_instant,
        "range": !is_instant,
    })
}

fn defaults(panel: &Panel) -> Value {
    json!({
        "unit": panel.unit.grafana(),
        "min": 0,
        "custom": panel.view.custom(panel.unit.axis()),
        "color": {"mode": "palette-classic"},
        "mappings": [],
        "thresholds": {"mode": "absolute", "steps": [{"color": "green", "value": null}]},
    })
}

// === impl Layout ===

impl Layout {
    fn heading(&mut self) -> Place {
        self.break_line();
        let place = Place { x: 0, y: self.y, width: COLUMNS, height: 1 };
        self.y += 1;
        place
    }

    fn place(&mut self, panel: &Panel) -> Place {
        if self.x + panel.width > COLUMNS {
            self.break_line();
        }
        let place = Place { x: self.x, y: self.y, width: panel.width, height: panel.view.height() };
        self.x += place.width;
        self.line_height = self.line_height.max(place.height);
        place
    }

    fn break_line(&mut self) {
        self.y += self.line_height;
        (self.x, self.line_height) = (0, 0);
    }
}

// === impl Place ===

impl Place {
    fn json(self) -> Value {
        json!({"x": self.x, "y": self.y, "w": self.width, "h": self.height})
    }
}

// === impl View ===

impl View {
    const fn plugin(self) -> &'static str {
        match self {
            Self::Lines | Self::Stacked => "timeseries",
            Self::Figures => "stat",
            Self::Bars => "bargauge",
            Self::Bands => "status-history",
        }
    }

    const fn height(self) -> u32 {
        match self {
            Self::Figures => 5,
            Self::Lines | Self::Stacked | Self::Bars | Self::Bands => 8,
        }
    }

    fn options(self) -> Value {
        let latest = json!({"calcs": ["lastNotNull"], "fields": "", "values": false});
        match self {
            Self::Lines | Self::Stacked => json!({
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }),
            Self::Figures => json!({
                "reduceOptions": latest,
                "colorMode": "value",
                "graphMode": "none",
                "justifyMode": "auto",
                "orientation": "auto",
                "textMode": "auto",
            }),
            Self::Bars => json!({
                "reduceOptions": latest,
                "orientation": "horizontal",
                "displayMode": "basic",
                "showUnfilled": true,
                "minVizWidth": 8,
                "minVizHeight": 16,
            }),
            Self::Bands => json!({
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": false, "calcs": []},
                "tooltip": {"mode": "single", "sort": "none"},
                "showValue": "never",
                "rowHeight": 0.9,
                "colWidth": 0.9,
            }),
        }
    }

    fn custom(self, axis: &str) -> Value {
        let (stacking, fill) = if self == Self::Stacked { ("normal", 30) } else { ("none", 0) };
        match self {
            Self::Lines | Self::Stacked => json!({
                "drawStyle": "line",
                "lineWidth": 1,
                "fillOpacity": fill,
                "showPoints": "never",
                "spanNulls": false,
                "stacking": {"group": "A", "mode": stacking},
                "axisLabel": axis,
                "axisPlacement": "auto",
            }),
            Self::Bands => json!({"fillOpacity": 70, "lineWidth": 1}),
            Self::Figures | Self::Bars => json!({}),
        }
    }
}

// === impl Unit ===

impl Unit {
    /// Grafana's name of the unit. It knows no tokens, so they are plain numbers with a name at the axis.
    const fn grafana(self) -> &'static str {
        match self {
            Self::Tokens
            | Self::TokensPerSecond
            | Self::Blocks
            | Self::BlocksPerSecond
            | Self::PerSecond
            | Self::SecondsPerSecond
            | Self::Count => "short",
            Self::Share => "percentunit",
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Bytes => "bytes",
        }
    }

    const fn axis(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::TokensPerSecond => "tokens/s",
            Self::Blocks => "blocks",
            Self::BlocksPerSecond => "blocks/s",
            Self::PerSecond => "1/s",
            Self::SecondsPerSecond => "s/s",
            Self::Share | Self::Seconds | Self::Milliseconds | Self::Bytes | Self::Count => "",
        }
    }
}
